//go:build compat

package torture

import (
	"context"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
)

// movers is how many moves are asked for side by side, each of partitions of its own.
const movers = 2

// movesLeft counts the logs that are on their way in data directories that no broker uses.
func movesLeft(dirs []string) (n int) {
	for _, dir := range dirs {
		left, _ := filepath.Glob(filepath.Join(dir, "*-future"))
		n += len(left)
	}
	return n
}

// move sends partitions from one data directory to the other (KIP-113), one after the other, and waits for each to come
// there or to be given up.
func (w *world) move(ctx context.Context, number int, topics, dirs []string) error {
	client, err := w.client()
	if err != nil {
		return err
	}
	defer client.Close()
	var places []Place
	for i, topic := range append(slices.Clone(topics), "__consumer_offsets") {
		for p := range int32(loadPartitions) {
			if (i+int(p))%movers == number {
				places = append(places, Place{topic, p})
			}
		}
	}
	admin := kadm.NewClient(client)
	rng := w.rng(uint64(200 + number))
	for ; ctx.Err() == nil; pause(ctx, rng, 100*time.Millisecond) {
		op, cancel := context.WithTimeout(ctx, opLimit)
		err := w.moveOne(op, admin, rng, places[rng.IntN(len(places))], dirs)
		cancel()
		if err != nil && ctx.Err() == nil {
			w.failed("move", err)
		}
	}
	return nil
}

// moveOne moves a partition to the directory in which it does not lie. A move that is asked for is over some time, and it is
// given up only where a kill came before any of it was there.
func (w *world) moveOne(ctx context.Context, admin *kadm.Client, rng *rand.Rand, place Place, dirs []string) error {
	from, to, err := w.lies(ctx, admin, place)
	if err != nil || from == "" {
		return err
	}
	before := w.killCount()
	if to == "" {
		to = dirs[1-slices.Index(dirs, from)]
		var req kadm.AlterReplicaLogDirsReq
		req.Add(to, kadm.TopicsSet{place.Topic: {place.Partition: {}}})
		got, err := admin.AlterAllReplicaLogDirs(ctx, req)
		if err != nil {
			return err
		}
		got.Each(func(r kadm.AlterReplicaLogDirsResponse) { err = r.Err })
		if err != nil {
			return err
		}
		w.acked("moves begun")
	}
	for ; ; pause(ctx, rng, 100*time.Millisecond) {
		at, on, err := w.lies(ctx, admin, place)
		switch {
		case err != nil:
			return err
		case at == to && on == "":
			w.acked("moves over")
			return nil
		case on == "" && !w.settled(before):
			w.problem("%v was to move from %s to %s, lies in %q and is on its way to nowhere", place, from, to, at)
			return nil
		case on == "":
			w.acked("moves given up")
			return nil
		}
	}
}

// lies says in which data directory a partition is, and to which it is on its way; nowhere where it has no files yet.
func (w *world) lies(ctx context.Context, admin *kadm.Client, place Place) (at, to string, err error) {
	all, err := admin.DescribeAllLogDirs(ctx, kadm.TopicsSet{place.Topic: {place.Partition: {}}})
	if err != nil {
		return "", "", err
	}
	var places []string
	all.Each(func(d kadm.DescribedLogDir) {
		if d.Err != nil {
			err = fmt.Errorf("%s: %w", d.Dir, d.Err)
		}
		d.Topics.Each(func(p kadm.DescribedLogDirPartition) {
			if p.IsFuture {
				to = d.Dir
				return
			}
			at, places = d.Dir, append(places, d.Dir)
		})
	})
	if len(places) > 1 || at != "" && at == to || at == "" && to != "" {
		w.problem("%v lies in %v, on its way to %q", place, places, to)
	}
	return at, to, err
}
