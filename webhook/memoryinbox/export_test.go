package memoryinbox

// ErrUnfinished is the error of Close if the inbox still stores events.
var ErrUnfinished = errUnfinished
