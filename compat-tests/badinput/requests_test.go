//go:build compat && linux

package badinput

import (
	"encoding/binary"
	"reflect"
	"slices"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/compat-tests/frame"
)

// served is one API as the broker advertises it.
type served struct{ key, min, max int16 }

// untold are served at any time, and advertised only while there is a subscription to
// clients' metrics (KIP-714).
var untold = []served{{key: 71}, {key: 72}}

// versions asks the broker what it serves.
func (v *victim) versions(t *testing.T) []served {
	t.Helper()
	c, err := frame.Dial(v.Bootstrap)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	o := c.Ask(kmsg.NewPtrApiVersionsRequest())
	got, ok := o.Response.(*kmsg.ApiVersionsResponse)
	if !ok {
		t.Fatalf("ApiVersions: %s", o)
	}
	var list []served
	for _, k := range got.ApiKeys {
		list = append(list, served{k.ApiKey, k.MinVersion, k.MaxVersion})
	}
	for _, s := range untold {
		if !slices.ContainsFunc(list, func(told served) bool { return told.key == s.key }) {
			list = append(list, s)
		}
	}
	if len(list) < 20 {
		t.Fatalf("only %d APIs are served", len(list))
	}
	return list
}

// each calls f with a good request of every API in every version.
func (v *victim) each(t *testing.T, f func(key, version int16)) {
	t.Helper()
	for _, s := range v.versions(t) {
		for version := s.min; version <= s.max; version++ {
			f(s.key, version)
		}
	}
}

// sample is a request that a broker answers: every array holds one entry, every
// string is set.
func sample(key, version int16) kmsg.Request {
	req := kmsg.RequestForKey(key)
	req.SetVersion(version)
	fill(reflect.ValueOf(req).Elem(), "")
	switch r := req.(type) {
	case *kmsg.ProduceRequest:
		r.TransactionID = nil
		r.Acks, r.TimeoutMillis = 1, 1000
	case *kmsg.FetchRequest:
		r.ReplicaID, r.MaxWaitMillis, r.MaxBytes = -1, 0, 1<<20
		r.ReplicaState.ID, r.ReplicaState.Epoch = -1, -1
		r.SessionEpoch = -1
		r.ClusterID = nil
		r.Topics[0].Partitions[0].PartitionMaxBytes = 1 << 20
		r.Topics[0].Partitions[0].CurrentLeaderEpoch = -1
	case *kmsg.ListOffsetsRequest:
		r.ReplicaID = -1
		r.Topics[0].Partitions[0].CurrentLeaderEpoch = -1
		r.Topics[0].Partitions[0].Timestamp = -1
	case *kmsg.JoinGroupRequest:
		r.SessionTimeoutMillis, r.RebalanceTimeoutMillis = 6000, 100
		r.MemberID, r.InstanceID, r.ProtocolType = "", nil, "consumer"
	case *kmsg.OffsetCommitRequest:
		r.Generation, r.MemberID, r.InstanceID = -1, "", nil
	case *kmsg.CreateTopicsRequest:
		r.ValidateOnly = true
		r.Topics[0].NumPartitions, r.Topics[0].ReplicationFactor = -1, -1
	case *kmsg.DeleteTopicsRequest:
		r.TimeoutMillis = 1000
	case *kmsg.CreatePartitionsRequest:
		r.ValidateOnly = true
		r.Topics[0].Count = 2
	case *kmsg.IncrementalAlterConfigsRequest:
		r.ValidateOnly = true
		r.Resources[0].ResourceType = kmsg.ConfigResourceTypeTopic
		r.Resources[0].Configs[0].Name = "retention.ms"
	case *kmsg.DescribeConfigsRequest:
		r.Resources[0].ResourceType = kmsg.ConfigResourceTypeTopic
		r.Resources[0].ConfigNames = []string{"retention.ms"}
	case *kmsg.InitProducerIDRequest:
		r.TransactionalID = nil
		r.ProducerID, r.ProducerEpoch = -1, -1
	case *kmsg.ApiVersionsRequest:
		r.ClusterID = nil
	}
	return req
}

// nameOf is a string for a field of this name.
func nameOf(field string) string {
	switch field {
	case "Topic", "Topics", "ResourceName", "TopicNames":
		return topic
	}
	return "s"
}

// fill sets what a request's type leaves empty.
func fill(v reflect.Value, field string) {
	switch v.Kind() {
	case reflect.String:
		v.SetString(nameOf(field))
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		if d, ok := v.Interface().(interface{ Default() }); ok {
			d.Default()
		}
		fill(v.Elem(), field)
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			if field == "Records" {
				v.SetBytes(plainBatch("hello"))
			} else {
				v.SetBytes([]byte("b"))
			}
			return
		}
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		if d, ok := v.Index(0).Addr().Interface().(interface{ Default() }); ok {
			d.Default()
		}
		fill(v.Index(0), field)
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[kmsg.Tags]() {
			return
		}
		for i := range v.NumField() {
			f := v.Type().Field(i)
			if f.Name == "Version" && i == 0 {
				continue
			}
			fill(v.Field(i), f.Name)
		}
	}
}

// place is a length in a frame: that of an array, or of a string or bytes.
type place struct {
	field   string // its path
	array   bool
	compact bool
	// nullable: a null there is no lie. An encoder tells a null from nothing only
	// where the protocol does.
	nullable bool
	at       int // where its bytes begin
	size     int // how many they are
}

// places finds every length in a request's frame: growing what a length counts
// changes the length first.
func places(c *frame.Conn, req kmsg.Request) (good []byte, found []place) {
	encode := func() []byte {
		b := c.Encode(req)
		binary.BigEndian.PutUint32(b[4:], 7) // the same correlation id in all
		return b
	}
	good = encode()
	var walk func(v reflect.Value, path string)
	grown := func(path string, array, nullable bool, size int) {
		b := encode()
		for i := range min(len(b), len(good)) {
			if b[i] == good[i] {
				continue
			}
			p := place{field: path, array: array, nullable: nullable, compact: req.IsFlexible(), at: i, size: 1}
			if !req.IsFlexible() {
				p.size, p.at = size, i-size+1
			}
			found = append(found, p)
			return
		}
	}
	// differ compares what null and nothing are encoded as.
	differ := func(v, empty reflect.Value) bool {
		old := reflect.ValueOf(v.Interface())
		defer v.Set(old)
		v.SetZero()
		null := string(encode())
		v.Set(empty)
		return string(encode()) != null
	}
	walk = func(v reflect.Value, path string) {
		switch v.Kind() {
		case reflect.String:
			old := v.String()
			v.SetString(old + "x")
			grown(path, false, false, 2)
			v.SetString(old)
		case reflect.Pointer:
			if v.IsNil() {
				return
			}
			n := len(found)
			walk(v.Elem(), path)
			if v.Elem().Kind() == reflect.String && len(found) > n {
				found[n].nullable = differ(v, reflect.New(v.Type().Elem()))
			}
		case reflect.Slice:
			if v.Type().Elem().Kind() == reflect.Uint8 {
				old := v.Bytes()
				v.SetBytes(append(append([]byte(nil), old...), 'x'))
				grown(path, false, differ(v, reflect.ValueOf([]byte{})), 4)
				v.SetBytes(old)
				return
			}
			if v.Len() == 0 {
				return
			}
			one := v.Slice(0, 1)
			nullable := differ(v, reflect.MakeSlice(v.Type(), 0, 0))
			v.Set(reflect.AppendSlice(reflect.AppendSlice(reflect.MakeSlice(v.Type(), 0, 2), one), one))
			grown(path, true, nullable, 4)
			v.Set(one)
			walk(v.Index(0), path)
		case reflect.Struct:
			if v.Type() == reflect.TypeFor[kmsg.Tags]() {
				return
			}
			for i := range v.NumField() {
				walk(v.Field(i), path+"."+v.Type().Field(i).Name)
			}
		}
	}
	walk(reflect.ValueOf(req).Elem(), "")
	return good, found
}

// with puts other bytes in a length's place.
func (p place) with(good, length []byte) []byte {
	b := append([]byte(nil), good[:p.at]...)
	b = append(b, length...)
	return append(b, good[p.at+p.size:]...)
}

// number encodes a length n as this place has it; a compact one is n+1.
func (p place) number(n int64) []byte {
	switch {
	case p.compact:
		return binary.AppendUvarint(nil, uint64(uint32(n+1)))
	case p.size == 2:
		return binary.BigEndian.AppendUint16(nil, uint16(n))
	}
	return binary.BigEndian.AppendUint32(nil, uint32(n))
}

// Every array of a few requests whose shape is known is found.
func TestPlaces(t *testing.T) {
	c := &frame.Conn{ClientID: "x"}
	for _, one := range []struct {
		key, version   int16
		arrays, others int
	}{
		{3, 0, 1, 1}, {3, 12, 1, 1}, {1, 11, 4, 3}, {1, 13, 4, 1}, {11, 0, 1, 5}, {0, 3, 2, 2}, {19, 7, 4, 3},
	} {
		req := sample(one.key, one.version)
		good, found := places(c, req)
		arrays := 0
		for _, p := range found {
			if p.array {
				arrays++
			}
			if string(p.with(good, good[p.at:p.at+p.size])) != string(good) {
				t.Errorf("%T: a frame with nothing changed is another", req)
			}
		}
		if arrays != one.arrays || len(found)-arrays != one.others {
			t.Errorf("%T v%d: %d arrays and %d others, want %d and %d: %+v", req, one.version, arrays, len(found)-arrays, one.arrays, one.others, found)
		}
	}
}
