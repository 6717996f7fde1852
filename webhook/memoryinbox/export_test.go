package memoryinbox

// ErrUnfinished is the error of a closed inbox that stores events.
var ErrUnfinished = errUnfinished
