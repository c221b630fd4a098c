package disktest

// Counts is what was asked of a disk, in operations that are one system call each on a real one.
type Counts struct {
	Opens   int // of files, to whatever end; as many are closed
	Reads   int
	Bytes   int64 // that reads brought
	Looks   int   // directories listed and files asked for their size
	Changes int   // writes, cuts, syncs, and changes of a name
	Syncs   int   // of files, among the changes
}

// Calls is the operations together.
func (c Counts) Calls() int { return c.Opens + c.Reads + c.Looks + c.Changes }

// Since is what was asked after b.
func (c Counts) Since(b Counts) Counts {
	return Counts{c.Opens - b.Opens, c.Reads - b.Reads, c.Bytes - b.Bytes, c.Looks - b.Looks, c.Changes - b.Changes, c.Syncs - b.Syncs}
}

// Counts is what was asked of the disk since it was made.
func (f *FS) Counts() Counts {
	f.mu.Lock()
	defer f.mu.Unlock()
	c := f.counts
	c.Changes = f.ops
	return c
}
