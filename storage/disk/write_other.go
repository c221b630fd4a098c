//go:build !linux

package disk

// WriteAllAt implements File.
func (f osFile) WriteAllAt(pieces [][]byte, off int64) (int, error) {
	done := 0
	for _, p := range pieces {
		n, err := f.WriteAt(p, off+int64(done))
		done += n
		if err != nil {
			return done, err
		}
	}
	return done, nil
}
