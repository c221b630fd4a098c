//go:build compat

package torture

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"sync"

	"millrace/compat-tests/launch"
)

// verdict is what `millrace log verify` says of a data directory.
type verdict struct {
	partitions int
	wrong      []string // what the next start does not mend
}

// verify asks for one. kill -9 leaves the page cache as it was: nothing that it leaves may be wrong.
func verify(dir string) (v verdict, err error) {
	binary, err := launch.Binary()
	if err != nil {
		return v, err
	}
	out, err := exec.Command(binary, "log", "verify", "--json", dir).Output()
	lines := bufio.NewScanner(bytes.NewReader(out))
	for lines.Scan() {
		var line struct {
			Kind, File, Reason string
			Position, Offset   int64
			Mended             bool
			Partitions         int
			LostRecords        int64
		}
		if err := json.Unmarshal(lines.Bytes(), &line); err != nil {
			return v, fmt.Errorf("%q: %w", lines.Text(), err)
		}
		if line.Kind == "finding" && !line.Mended {
			v.wrong = append(v.wrong, fmt.Sprintf("%s at %d (offset %d): %s; %d records would be lost", line.File, line.Position, line.Offset, line.Reason, line.LostRecords))
		}
		v.partitions = max(v.partitions, line.Partitions)
	}
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) && len(v.wrong) > 0 {
		err = nil // it says so, too
	} else if err == nil && len(v.wrong) > 0 {
		err = fmt.Errorf("exit code 0, with %v", v.wrong)
	}
	return v, err
}

// judgeFiles verifies all data directories. No broker uses them.
func (w *world) judgeFiles(after string, dirs []string) {
	var wg sync.WaitGroup
	for _, dir := range dirs {
		wg.Go(func() {
			v, err := verify(dir)
			if err != nil {
				w.problem("after %s, log verify %s: %v", after, dir, err)
			}
			for i, wrong := range v.wrong {
				if i == 5 {
					w.problem("after %s, and %d more in %s", after, len(v.wrong)-i, dir)
					break
				}
				w.problem("after %s, log verify: %s", after, wrong)
			}
			w.locked(func() { w.counts["partitions verified"] += v.partitions })
		})
	}
	wg.Wait()
}
