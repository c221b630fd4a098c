package raftlog

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	pb "go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"
)

const (
	snapshotSuffix = ".snapshot"
	partSuffix     = ".part"
	snapshotMagic  = "MRSNAP1\n"
	snapshotHead   = len(snapshotMagic) + 4 + 4
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func errNoSnapshot(meta *pb.SnapshotMetadata) error {
	return fmt.Errorf("no snapshot was stored for index %d, term %d", meta.GetIndex(), meta.GetTerm())
}

func snapshotName(index, term uint64) string {
	return fmt.Sprintf("%020d-%020d%s", index, term, snapshotSuffix)
}

// writeSnapshot writes a snapshot's file; it is durable, under its name, when
// this returns.
func writeSnapshot(dir string, s *pb.Snapshot) error {
	meta, err := proto.Marshal(s.GetMetadata())
	if err != nil {
		return fmt.Errorf("encoding a snapshot's metadata: %w", err)
	}
	head := make([]byte, snapshotHead, snapshotHead+len(meta))
	copy(head, snapshotMagic)
	binary.BigEndian.PutUint32(head[len(snapshotMagic)+4:], uint32(len(meta)))
	head = append(head, meta...)
	sum := crc32.Update(crc32.Checksum(head[len(snapshotMagic)+4:], castagnoli), castagnoli, s.GetData())
	binary.BigEndian.PutUint32(head[len(snapshotMagic):], sum)

	path := filepath.Join(dir, snapshotName(s.GetMetadata().GetIndex(), s.GetMetadata().GetTerm()))
	part := path + partSuffix
	f, err := os.OpenFile(part, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o644)
	if err != nil {
		return fmt.Errorf("writing a snapshot: %w", err)
	}
	_, err = f.Write(head)
	if err == nil {
		_, err = f.Write(s.GetData())
	}
	if err == nil {
		err = f.Sync()
	}
	if closed := f.Close(); err == nil {
		err = closed
	}
	if err == nil {
		err = os.Rename(part, path)
	}
	if err == nil {
		err = syncDir(dir)
	}
	if err != nil {
		return fmt.Errorf("writing snapshot %s: %w", path, err)
	}
	return nil
}

// readSnapshot reads and checks a snapshot's file.
func readSnapshot(dir string, index, term uint64) (*pb.Snapshot, error) {
	path := filepath.Join(dir, snapshotName(index, term))
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("reading a snapshot: %w", err)
	}
	if len(b) < snapshotHead || !bytes.HasPrefix(b, []byte(snapshotMagic)) {
		return nil, fmt.Errorf("reading snapshot %s: it is not one", path)
	}
	sum, rest := binary.BigEndian.Uint32(b[len(snapshotMagic):]), b[len(snapshotMagic)+4:]
	if crc32.Checksum(rest, castagnoli) != sum {
		return nil, fmt.Errorf("reading snapshot %s: its checksum does not match", path)
	}
	size := binary.BigEndian.Uint32(rest)
	rest = rest[4:]
	if uint64(size) > uint64(len(rest)) {
		return nil, fmt.Errorf("reading snapshot %s: its metadata is cut", path)
	}
	meta := &pb.SnapshotMetadata{}
	if err := proto.Unmarshal(rest[:size], meta); err != nil {
		return nil, fmt.Errorf("reading snapshot %s: %w", path, err)
	}
	if meta.GetIndex() != index || meta.GetTerm() != term {
		return nil, fmt.Errorf("reading snapshot %s: it holds index %d, term %d", path, meta.GetIndex(), meta.GetTerm())
	}
	if len(meta.GetConfState().GetVoters()) == 0 {
		return nil, fmt.Errorf("reading snapshot %s: it is of a group without members", path)
	}
	return &pb.Snapshot{Metadata: pb.EnsureSnapshotMetadata(meta), Data: rest[size:]}, nil
}

type snapshotFile struct{ index, term uint64 }

// removeParts removes the snapshots of a directory that were never finished.
func removeParts(dir string) error {
	names, err := os.ReadDir(dir)
	for _, entry := range names {
		if strings.HasSuffix(entry.Name(), snapshotSuffix+partSuffix) {
			err = errors.Join(err, os.Remove(filepath.Join(dir, entry.Name())))
		}
	}
	if err != nil {
		return fmt.Errorf("removing an unfinished snapshot: %w", err)
	}
	return nil
}

// listSnapshots lists the complete snapshots of a directory, oldest first.
func listSnapshots(dir string) ([]snapshotFile, error) {
	names, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("listing snapshots: %w", err)
	}
	var out []snapshotFile
	for _, entry := range names {
		name := entry.Name()
		base, ok := strings.CutSuffix(name, snapshotSuffix)
		if !ok {
			continue
		}
		left, right, ok := strings.Cut(base, "-")
		index, err1 := strconv.ParseUint(left, 10, 64)
		term, err2 := strconv.ParseUint(right, 10, 64)
		if !ok || err1 != nil || err2 != nil {
			continue
		}
		out = append(out, snapshotFile{index, term})
	}
	slices.SortFunc(out, func(a, b snapshotFile) int {
		return cmp.Or(cmp.Compare(a.index, b.index), cmp.Compare(a.term, b.term))
	})
	return out, nil
}

// dropSnapshots removes the snapshots before the one at index.
func dropSnapshots(dir string, index uint64) error {
	all, err := listSnapshots(dir)
	if err != nil {
		return err
	}
	for _, s := range all {
		if s.index >= index {
			break
		}
		err := os.Remove(filepath.Join(dir, snapshotName(s.index, s.term)))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("removing an old snapshot: %w", err)
		}
	}
	return nil
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}
