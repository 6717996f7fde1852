package seal

// ParseKey reads the text of one key.
var ParseKey = parseKey
