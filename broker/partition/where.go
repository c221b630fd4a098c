package partition

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"millrace/storage/batch"
	"millrace/storage/log"
)

// Where is the segment's file, and the position in it, of the batch that holds an offset or is the first behind it; or of
// what stands in its way, where something does that is no batch. The position is -1 where it cannot be told, the file ""
// where there is none.
func (p *Partition) Where(o batch.Offset) (file string, position int64) {
	l := p.Log()
	v := l.View()
	if !v.HasFiles() {
		return "", -1
	}
	file, position, err := v.Where(o)
	if err == nil {
		return file, position
	}
	position = -1
	var damage *log.CorruptError
	if errors.As(err, &damage) {
		position = damage.Position
	}
	return fmt.Sprintf("%s/%020d.log", l.Dir(), v.SegmentOf(o)), position
}

// Damaged is the segment's file, and the position in it, where a read of the log came upon what is no batch, by the error
// that it gave; or the file that the disk did not give. "" and -1: neither can be told.
func (p *Partition) Damaged(err error) (file string, position int64) {
	var damage *log.CorruptError
	var refused *fs.PathError
	if errors.As(err, &refused) {
		return refused.Path, -1
	}
	if !errors.As(err, &damage) {
		return "", -1
	}
	// The log says which segment only in words.
	before, _, _ := strings.Cut(err.Error(), damage.Error())
	var base int64
	if i := strings.LastIndex(before, "segment "); i >= 0 {
		if _, err := fmt.Sscanf(before[i:], "segment %d:", &base); err == nil {
			file = fmt.Sprintf("%s/%020d.log", p.Log().Dir(), base)
		}
	}
	return file, damage.Position
}
