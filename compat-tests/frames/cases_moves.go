package frames

import (
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// Cases of partitions that move between data directories. Those that move need
// servers with two of them, and are played on such by TestMovesAreKafkas.
func moveCases() []Case {
	return []Case{{API: kmsg.AlterReplicaLogDirs, Name: "refused", Run: movesRefused}}
}

// put is partitions of a topic that are to lie in a directory.
type put struct {
	dir, topic string
	partitions []int32
}

func (s *Side) putting(puts ...put) *kmsg.AlterReplicaLogDirsRequest {
	req := kmsg.NewPtrAlterReplicaLogDirsRequest()
	for _, p := range puts {
		d := kmsg.NewAlterReplicaLogDirsRequestDir()
		d.Dir = p.dir
		t := kmsg.NewAlterReplicaLogDirsRequestDirTopic()
		t.Topic, t.Partitions = p.topic, p.partitions
		d.Topics = append(d.Topics, t)
		req.Dirs = append(req.Dirs, d)
	}
	return req
}

// dirs asks where the directories are, the one that holds a partition first.
func (s *Side) dirs(topic string, index int32) []string {
	req := kmsg.NewPtrDescribeLogDirsRequest()
	resp, ok := s.Do(4, req).Response.(*kmsg.DescribeLogDirsResponse)
	if !ok {
		s.Fail("the directories are not described")
		return []string{"", ""}
	}
	var list []string
	for _, d := range resp.Dirs {
		here := slices.ContainsFunc(d.Topics, func(t kmsg.DescribeLogDirsResponseDirTopic) bool {
			return t.Topic == s.Topic(topic) && slices.ContainsFunc(t.Partitions, func(p kmsg.DescribeLogDirsResponseDirTopicPartition) bool { return p.Partition == index && !p.IsFuture })
		})
		if here {
			list = append([]string{d.Dir}, list...)
		} else {
			list = append(list, d.Dir)
		}
	}
	return list
}

func movesRefused(s *Side) {
	s.createTopic("a", 2)
	s.write("a", plain("0", "1"))
	here := s.dirs("a", 0)[0]
	a := s.Topic("a")
	s.Ask("nothing", s.putting())
	s.Ask("no partitions", s.putting(put{here, a, nil}))
	s.Ask("where it is", s.putting(put{here, a, []int32{0, 1}}))
	s.Ask("a directory that is none", s.putting(put{"/nowhere", a, []int32{0}}))
	s.Ask("no directory", s.putting(put{"", a, []int32{0}}))
	s.Ask("its path in other words", s.putting(put{here + "/", a, []int32{0}}, put{here + "/.", a, []int32{1}}))
	s.Ask("partitions that are none", s.putting(put{here, a, []int32{2, -1, 1<<31 - 1}}))
	s.Ask("topics that are none", s.putting(put{here, s.Topic("no"), []int32{0}}, put{here, "bad name", []int32{0}}, put{here, "", []int32{0}}))
	s.Ask("neither", s.putting(put{"/nowhere", s.Topic("no"), []int32{0}}))
	s.Ask("the metadata", s.putting(put{here, "__cluster_metadata", []int32{0}}))
	s.Ask("twice", s.putting(put{"/nowhere", a, []int32{0, 0}}, put{here, a, []int32{0}}))
	s.Ask("twice, the last wrong", s.putting(put{here, a, []int32{0}}, put{"/nowhere", a, []int32{0}}))
	long := strings.Repeat("n", 213)
	s.Ask("long names", s.putting(put{here, long, []int32{0, 10}}, put{here, long + "n", []int32{0}}, put{"/nowhere", long + "nn", []int32{0}}))
	s.logDirs("afterwards", s.dirTopic("a", 0, 1))
}

// arrives waits until partition 0 of a topic is in a directory and on no way.
func (s *Side) arrives(topic, dir string) {
	for range 500 {
		if s.dirs(topic, 0)[0] == dir && len(s.futures(topic, 0)) == 0 {
			return
		}
		pause(20)
	}
	s.Fail("topic %s does not arrive", topic)
}

// futures says which partitions of a topic are on their way.
func (s *Side) futures(topic string, partitions ...int32) (list []int32) {
	req := kmsg.NewPtrDescribeLogDirsRequest()
	req.Topics = append(req.Topics, s.dirTopic(topic, partitions...))
	if resp, ok := s.Do(4, req).Response.(*kmsg.DescribeLogDirsResponse); ok {
		for _, d := range resp.Dirs {
			for _, t := range d.Topics {
				for _, p := range t.Partitions {
					if p.IsFuture {
						list = append(list, p.Partition)
					}
				}
			}
		}
	}
	slices.Sort(list)
	return list
}

// setBroker sets a config of broker 1, or of all where it may be set so.
func (s *Side) setBroker(broker, key, value string) {
	req := kmsg.NewPtrIncrementalAlterConfigsRequest()
	r := kmsg.NewIncrementalAlterConfigsRequestResource()
	r.ResourceType, r.ResourceName = kmsg.ConfigResourceTypeBroker, broker
	r.Configs = []kmsg.IncrementalAlterConfigsRequestResourceConfig{{Name: key, Value: &value}}
	req.Resources = append(req.Resources, r)
	if resp, ok := s.Do(1, req).Response.(*kmsg.IncrementalAlterConfigsResponse); !ok || resp.Resources[0].ErrorCode != 0 {
		s.Fail("%s=%s is not taken", key, value)
	}
	pause(300)
}

// moves is a life between two directories.
func moves(s *Side) {
	s.createTopic("a", 1, "segment.bytes", "1048576", "max.message.bytes", "2000000")
	a := s.Topic("a")
	for i := range 3 {
		s.write("a", plain(strings.Repeat("x", 700_000+i)))
	}
	dirs := s.dirs("a", 0)
	here, there := dirs[0], dirs[1]
	s.Ask("there", s.putting(put{there, a, []int32{0}}))
	s.arrives("a", there)
	s.logDirs("there", s.dirTopic("a", 0))
	s.stored("there", "a", 0)
	s.write("a", plain("written there"))
	s.Do(1, s.deleting(below{"a", 0, 2}))
	s.Ask("back, over there again", s.putting(put{there, a, []int32{0}}, put{here, a, []int32{0}}))
	s.arrives("a", here)
	s.logDirs("back", s.dirTopic("a", 0))
	s.stored("back", "a", 0)

	// Producers and transactions' sequences go with it.
	s.write("a", plain("written here"))
	s.Do(0, s.producersOf("a", 0))

	// Cordoned directories (KIP-1066).
	s.setBroker("1", "cordoned.log.dirs", there)
	s.Ask("into a cordoned directory", s.putting(put{there, a, []int32{0}}))
	s.Ask("where it is, beside a cordoned one", s.putting(put{here, a, []int32{0}}))
	s.Ask("what is not, into a cordoned one", s.putting(put{there, s.Topic("no"), []int32{0}}))
	s.setBroker("1", "cordoned.log.dirs", "")

	// Held back, called off, and asked for before it comes.
	s.setBroker("", "replica.alter.log.dirs.io.max.bytes.per.second", "1")
	s.createTopic("b", 1)
	for range 20 {
		s.write("b", plain(strings.Repeat("y", 1000)))
	}
	b := s.dirs("b", 0)
	s.Ask("held back", s.putting(put{b[1], s.Topic("b"), []int32{0}}))
	pause(500)
	s.Check("it is on its way", s.futures("b", 0))
	s.Ask("there once more", s.putting(put{b[1], s.Topic("b"), []int32{0}}))
	s.Check("it is still on its way", s.futures("b", 0))
	s.setBroker("1", "cordoned.log.dirs", b[1])
	s.Ask("there, which is cordoned now", s.putting(put{b[1], s.Topic("b"), []int32{0}}))
	s.setBroker("1", "cordoned.log.dirs", "")
	s.Ask("called off", s.putting(put{b[0], s.Topic("b"), []int32{0}}))
	s.Check("it stays", s.futures("b", 0))
	s.logDirs("called off", s.dirTopic("b", 0))
	s.setBroker("", "replica.alter.log.dirs.io.max.bytes.per.second", "9223372036854775807")
	s.Ask("what comes later", s.putting(put{there, s.Topic("later"), []int32{0, 1, 2}}, put{here, s.Topic("later"), []int32{2}}))
	s.createTopic("later", 3)
	s.Check("it comes there", []bool{s.dirs("later", 0)[0] == there, s.dirs("later", 1)[0] == there, s.dirs("later", 2)[0] == here})
}
