package disk

import "syscall"

// unnoted opens a file without its reads being noted in it (atime). Each read behind
// an append would be, as most systems are set up: a step of the file system's journal
// that nobody asks for, and that a read waits for which is not to wait.
const unnoted = syscall.O_NOATIME
