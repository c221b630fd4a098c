package main

import (
	"bufio"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"millrace/storage/check"
	"millrace/storage/disk"
)

// unsoundError ends a verification that has told what it found.
type unsoundError struct {
	found int
	cut   check.Cut
}

func (e unsoundError) Error() string {
	return "not sound: " + counted(e.found, "finding", "findings") + losing(e.cut)
}

// losing says what the next start takes away of what can be read; nothing if it takes none of it.
func losing(c check.Cut) string {
	if c.Batches == 0 {
		return ""
	}
	return fmt.Sprintf(", the next start loses %s with %s", counted(c.Batches, "readable batch", "readable batches"), counted(c.Records, "record", "records"))
}

func counted[N int | int64](n N, one, more string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, more)
}

// logCommand looks at data directories that no broker uses.
func (p *program) logCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "log",
		Short: "Look at data directories that no broker uses",
		Args:  noArgs,
		RunE:  func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	var asJSON, records, shallow bool
	dump := &cobra.Command{
		Use:   "dump DIR",
		Short: "Show what stands in the files of a data directory or a partition",
		Long: "Show what stands in the files of a data directory, or of one partition's\n" +
			"directory: batches, index entries, aborted transactions, producers, leader\n" +
			"epochs, checkpoints; with --records the records too, but of one above 16 MiB\n" +
			"only its place, and no more than 4096 headers. Logs that are on their way from\n" +
			"another directory, and files that are about to be a segment's or to go, are\n" +
			"shown as well. A place that cannot be read is shown as such. Bytes that are no\n" +
			"text are shown as base64, after 'base64:' or in JSON under a name that ends in\n" +
			"Base64.\n\n" +
			"Each of several log.dirs is a call of its own. The controller's metadata\n" +
			"(__cluster_metadata-0) is not shown. A directory in which nothing is a broker's\n" +
			"ends it with exit code 1.",
		Args: exactDir,
		RunE: func(c *cobra.Command, args []string) error { return dumpLogs(p.stdout, args[0], records, asJSON) },
	}
	dump.Flags().BoolVar(&asJSON, "json", false, "one JSON object a line")
	dump.Flags().BoolVar(&records, "records", false, "show the records of batches")
	verify := &cobra.Command{
		Use:   "verify DIR",
		Short: "Say whether a data directory or a partition is sound",
		Long: "Compare everything in a data directory, or in one partition's directory, with\n" +
			"everything else there: checksums, records, indexes, producer snapshots, leader\n" +
			"epochs, checkpoints. Each finding names file, position, offset and reason.\n\n" +
			"A directory without partitions is called empty, not sound: it may have taken the\n" +
			"place of another one. Of a partition's directory alone it is not known how far it\n" +
			"was flushed: everything in it has to be right, and a torn tail is not sound.\n\n" +
			"The exit code is 0 if the next start loses nothing that was flushed to disk or\n" +
			"can be read, 1 otherwise. What was not flushed when a broker did not stop in\n" +
			"order may be torn. The next start cuts the log at the first batch that is not\n" +
			"right there, whatever follows it; the finding says how many bytes go. With\n" +
			"nothing behind it that can be read, as a kill leaves it, the directory is sound.\n" +
			"Where readable batches follow they go too, acknowledged ones perhaps: the\n" +
			"finding and the last line say how many batches and records ('lostBatches' and\n" +
			"'lostRecords' in JSON), and the directory is not sound. Copy it before a start:\n" +
			"'log dump --records' still shows the batches before and behind, as far as each\n" +
			"leads to the next.\n\n" +
			"Each of several log.dirs is a call of its own. The controller's metadata\n" +
			"(__cluster_metadata-0) is not looked at. While a broker uses the directory,\n" +
			"findings may come from what it is writing.",
		Args: exactDir,
		RunE: func(c *cobra.Command, args []string) error { return verifyLogs(p.stdout, args[0], shallow, asJSON) },
	}
	verify.Flags().BoolVar(&asJSON, "json", false, "one JSON object a line")
	verify.Flags().BoolVar(&shallow, "shallow", false, "compare checksums, but do not read the records inside batches")
	c.AddCommand(dump, verify)
	return c
}

func exactDir(c *cobra.Command, args []string) error {
	if len(args) != 1 {
		return usageError{fmt.Errorf("%s takes one directory; each of several log.dirs is a call of its own", c.CommandPath())}
	}
	return lookable(c.CommandPath(), args[0])
}

// lookable says why there is nothing to look at under a name.
func lookable(command, dir string) error {
	whole, err := filepath.Abs(dir)
	if err != nil {
		return err
	}
	if filepath.Base(whole) == check.ClusterMetadata {
		return usageError{fmt.Errorf("%s does not look at the controller's metadata (%s)", command, check.ClusterMetadata)}
	}
	info, err := os.Stat(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist) && strings.Contains(dir, ","):
		return fmt.Errorf("%s: there is no such directory; each of several log.dirs is a call of its own", dir)
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%s: there is no such directory", dir)
	case err != nil:
		return err
	case !info.IsDir():
		return fmt.Errorf("%s is a file: %s takes the directory of a partition, or one of log.dirs", dir, command)
	}
	return nil
}

func cleanDir(dir string) string {
	if trimmed := strings.TrimRight(dir, "/"); trimmed != "" {
		return trimmed
	}
	return dir
}

func dumpLogs(w io.Writer, dir string, records, asJSON bool) error {
	known, err := check.Knows(disk.OS{}, cleanDir(dir))
	if err != nil {
		return err
	}
	if !known {
		return fmt.Errorf("%s: there is nothing in it that is a data directory's or a partition's", dir)
	}
	out := bufio.NewWriterSize(w, 64<<10)
	err = check.Dump(disk.OS{}, cleanDir(dir), check.DumpOptions{Records: records}, func(x check.Item) error {
		if asJSON {
			return writeJSON(out, itemJSON(x))
		}
		return writeItem(out, x)
	})
	if ferr := out.Flush(); err == nil {
		err = ferr
	}
	return err
}

func writeItem(out *bufio.Writer, x check.Item) error {
	out.WriteString(x.File)
	if x.Position >= 0 {
		out.WriteByte('@')
		out.WriteString(strconv.FormatInt(x.Position, 10))
	}
	out.WriteString(": " + x.Kind)
	writeFields(out, x.Fields)
	return out.WriteByte('\n')
}

func writeFields(out *bufio.Writer, fields []check.Field) {
	for _, f := range fields {
		out.WriteString(" " + f.Name + "=")
		switch v := f.Value.(type) {
		case []byte:
			out.WriteString(bytesText(v))
		case string:
			out.WriteString(bytesText([]byte(v)))
		case []check.Item:
			out.WriteByte('[')
			for i, x := range v {
				if i > 0 {
					out.WriteByte(',')
				}
				out.WriteByte('{')
				writeFields(out, x.Fields)
				out.WriteString(" }")
			}
			out.WriteByte(']')
		default:
			fmt.Fprint(out, v)
		}
	}
}

func bytesText(b []byte) string {
	switch {
	case b == nil:
		return "null"
	case utf8.Valid(b):
		return strconv.Quote(string(b))
	}
	return "base64:" + base64.StdEncoding.EncodeToString(b)
}

// field is one name and value of a JSON object, which keeps the order.
type field struct {
	name  string
	value any
}

func itemJSON(x check.Item) []field {
	out := []field{{"file", x.File}}
	if x.Position >= 0 {
		out = append(out, field{"position", x.Position})
	}
	return append(append(out, field{"kind", x.Kind}), fieldsJSON(x.Fields)...)
}

func fieldsJSON(fields []check.Field) []field {
	var out []field
	for _, f := range fields {
		name := f.Name
		if name == "position" {
			name = "entryPosition" // beside that of the item itself
		}
		switch v := f.Value.(type) {
		case []byte:
			if v == nil {
				out = append(out, field{name, nil})
			} else {
				out = append(out, textJSON(name, string(v)))
			}
		case string:
			out = append(out, textJSON(name, v))
		case []check.Item:
			list := [][]field{}
			for _, x := range v {
				list = append(list, fieldsJSON(x.Fields))
			}
			out = append(out, field{name, list})
		default:
			out = append(out, field{name, v})
		}
	}
	return out
}

// textJSON is text as it is, and bytes that are none under another name: JSON cannot hold them.
func textJSON(name, v string) field {
	if utf8.ValidString(v) {
		return field{name, v}
	}
	return field{name + "Base64", base64.StdEncoding.EncodeToString([]byte(v))}
}

func writeJSON(out *bufio.Writer, fields []field) error {
	if err := writeObject(out, fields); err != nil {
		return err
	}
	return out.WriteByte('\n')
}

func writeObject(out *bufio.Writer, fields []field) error {
	out.WriteByte('{')
	for i, f := range fields {
		if i > 0 {
			out.WriteByte(',')
		}
		fmt.Fprintf(out, "%q:", f.name)
		if list, ok := f.value.([][]field); ok {
			out.WriteByte('[')
			for i, x := range list {
				if i > 0 {
					out.WriteByte(',')
				}
				if err := writeObject(out, x); err != nil {
					return err
				}
			}
			out.WriteByte(']')
			continue
		}
		b, err := json.Marshal(f.value)
		if err != nil {
			return err
		}
		out.Write(b)
	}
	return out.WriteByte('}')
}

func verifyLogs(w io.Writer, dir string, shallow, asJSON bool) error {
	fsys, dir := disk.OS{}, cleanDir(dir)
	whole, err := check.IsDataDirectory(fsys, dir)
	if err != nil {
		return err
	}
	var r check.Report
	if whole {
		r, err = check.Directory(fsys, dir, shallow)
	} else {
		// Without its checkpoints nobody knows how far a partition was flushed: everything in it has to be right.
		var one check.Partition
		one, err = check.CheckPartition(fsys, dir, check.Options{Clean: true, RecoveryPoint: -1, LogStart: -1, HighWatermark: -1, Cleaned: -1, Shallow: shallow})
		r = check.Report{Dir: dir, Partitions: []check.Partition{one}}
	}
	if err != nil {
		return err
	}
	out := bufio.NewWriter(w)
	found := 0
	for _, f := range r.All() {
		if !f.Mended {
			found++
		}
		if !asJSON {
			fmt.Fprintln(out, f)
			continue
		}
		x := []field{{"kind", "finding"}, {"file", f.File}, {"position", f.Position}, {"offset", int64(f.Offset)}, {"reason", f.Reason}, {"mended", f.Mended}}
		if f.Cut != nil {
			x = append(x, cutJSON(*f.Cut)...)
		}
		if err := writeJSON(out, x); err != nil {
			return err
		}
	}
	var batches, records, bytes int64
	for _, x := range r.Partitions {
		batches, records, bytes = batches+x.Batches, records+x.Records, bytes+x.Bytes
		if asJSON {
			if err := writeJSON(out, []field{{"kind", "partition"}, {"dir", x.Dir}, {"segments", x.Segments}, {"batches", x.Batches}, {"records", x.Records}, {"bytes", x.Bytes}, {"startOffset", int64(x.Start)}, {"endOffset", int64(x.End)}, {"findings", len(x.Findings)}}); err != nil {
				return err
			}
		}
	}
	// An empty directory that took the place of another is a directory like that of a new broker: nothing in it is wrong, and
	// nothing is proved of what was there.
	state, cut := "sound", r.Cut()
	switch {
	case found > 0:
		state = "not sound" + losing(cut)
	case len(r.Partitions) == 0:
		state = "empty: there is no partition in it that could be verified"
	}
	if asJSON {
		x := []field{{"kind", "directory"}, {"dir", dir}, {"partitions", len(r.Partitions)}, {"findings", len(r.All())}, {"sound", found == 0 && len(r.Partitions) > 0}}
		err := writeJSON(out, append(x, cutJSON(cut)...))
		if err != nil {
			return err
		}
	} else {
		fmt.Fprintf(out, "%s: %s; %s, %s, %s, %s\n", dir, state, counted(len(r.Partitions), "partition", "partitions"), counted(batches, "batch", "batches"),
			counted(records, "record", "records"), counted(bytes, "byte", "bytes"))
	}
	if err := out.Flush(); err != nil {
		return err
	}
	if found > 0 {
		return unsoundError{found, cut}
	}
	return nil
}

// cutJSON is what the next start cuts off: how many bytes, and what of it could be read.
func cutJSON(c check.Cut) []field {
	return []field{{"cutBytes", c.Bytes}, {"lostBatches", c.Batches}, {"lostRecords", c.Records}}
}
