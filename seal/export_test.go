package seal

// ParseKey parses a single key.
var ParseKey = parseKey
