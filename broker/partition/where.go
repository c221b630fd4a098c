package partition

import (
	"errors"
	"fmt"

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
		if damage.File != "" {
			return damage.File, position
		}
	}
	return fmt.Sprintf("%s/%020d.log", l.Dir(), v.SegmentOf(o)), position
}
