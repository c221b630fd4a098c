package broker

import (
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"
)

func TestRequestFilter(t *testing.T) {
	f, err := ParseRequestFilter("client=a, client=b,api=produce,api=1,topic=t")
	if err != nil || len(f.Clients) != 2 || len(f.APIs) != 2 || f.APIs[1] != kmsg.Fetch || f.Topics[0] != "t" {
		t.Errorf("%+v %v", f, err)
	}
	for _, bad := range []string{"", "client", "client=", "api=Nothing", "color=red", "all,api=Fetch"} {
		if _, err := ParseRequestFilter(bad); err == nil {
			t.Errorf("%q is taken", bad)
		}
	}
}

// The log of a produce, a fetch and a change of configs: what a filter asks for
// and nothing else, a line for each request and answer, no bytes and no secrets.
func TestRequestLog(t *testing.T) {
	core, lines := observer.New(zapcore.InfoLevel)
	f, err := ParseRequestFilter("client=walk,topic=walk")
	if err != nil {
		t.Fatal(err)
	}
	nc := servingWith(t, Options{Logger: zap.New(core), LogRequests: f})
	produce, fetch := walkable(t, nc, 1024)
	buf := make([]byte, 1<<20)
	exchange(t, nc, produce, buf)
	exchange(t, nc, fetch, buf)
	exchange(t, nc, frameOf(kmsg.NewPtrListGroupsRequest(), 0), buf)
	var got []string
	for _, e := range lines.FilterLoggerName("requests").All() {
		fields := ""
		if raw, ok := e.ContextMap()["fields"]; ok {
			fields = string(mustJSON(t, raw))
		}
		got = append(got, e.Message+" "+e.ContextMap()["api"].(string)+" "+fields)
	}
	want := []string{"request Metadata", "answer Metadata", "request Produce", "answer Produce", "request Fetch", "answer Fetch"}
	if len(got) != len(want) {
		t.Fatalf("%d lines:\n%s", len(got), strings.Join(got, "\n"))
	}
	for i := range want {
		if !strings.HasPrefix(got[i], want[i]+" {") {
			t.Errorf("line %d is %s", i, got[i])
		}
	}
	for i, piece := range map[int]string{2: `"Records":{"bytes":1094,"batches":1,"records":1}`, 3: `"ErrorCode":0`, 5: `"RecordBatches":{"bytes":1094,"batches":1,"records":1}`} {
		if !strings.Contains(got[i], piece) {
			t.Errorf("line %d lacks %s: %s", i, piece, got[i])
		}
	}
}

// An old client's records, which are converted as they are sent, are logged and
// sent.
func TestRequestLogOldFetch(t *testing.T) {
	core, lines := observer.New(zapcore.InfoLevel)
	nc := servingWith(t, Options{Logger: zap.New(core), LogRequests: &RequestFilter{}})
	produce, _ := walkable(t, nc, 1024)
	buf := make([]byte, 1<<20)
	exchange(t, nc, produce, buf)
	req := kmsg.NewPtrFetchRequest()
	req.ReplicaID, req.MaxBytes = -1, 1<<20
	rt := kmsg.NewFetchRequestTopic()
	rt.Topic = "walk"
	rp := kmsg.NewFetchRequestTopicPartition()
	rp.PartitionMaxBytes = 1 << 20
	rt.Partitions = append(rt.Partitions, rp)
	req.Topics = append(req.Topics, rt)
	for version := range int16(batchesInFetch) {
		n := len(lines.All())
		exchange(t, nc, frameOf(req, version), buf)
		if got := lines.FilterLoggerName("requests").All(); len(got) < 2 || len(lines.All()) != n+2 {
			t.Errorf("v%d: %d lines more", version, len(lines.All())-n)
		}
	}
}

// A client is written with its name, of which it may send 32 kB, in part.
func TestRequestLogBoundsNames(t *testing.T) {
	core, lines := observer.New(zapcore.InfoLevel)
	nc := servingWith(t, Options{Logger: zap.New(core), LogRequests: &RequestFilter{}})
	frame := kmsg.NewRequestFormatter(kmsg.FormatterClientID(strings.Repeat("\x01", 32_000))).AppendRequest(nil, kmsg.NewPtrApiVersionsRequest(), 1)
	exchange(t, nc, frame, make([]byte, 1<<20))
	all := lines.FilterLoggerName("requests").All()
	if len(all) != 2 {
		t.Fatalf("%d lines", len(all))
	}
	for _, l := range all {
		if name := l.ContextMap()["client"].(string); len(name) > mostLogged || !strings.HasSuffix(name, "...") {
			t.Errorf("%s: a name of %d bytes", l.Message, len(name))
		}
	}
}

func mustJSON(t *testing.T, v any) []byte {
	m, ok := v.(interface{ MarshalJSON() ([]byte, error) })
	if !ok {
		t.Fatalf("%T is no JSON", v)
	}
	b, err := m.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// Values that may be secret are not written, whichever request holds them.
func TestRequestTextHidesSecrets(t *testing.T) {
	const secret = "hunter2"
	value := secret
	alter := kmsg.NewPtrIncrementalAlterConfigsRequest()
	r := kmsg.NewIncrementalAlterConfigsRequestResource()
	for _, name := range []string{"ssl.keystore.password", "listener.name.x.scram.jaas.config", "nobody.knows"} {
		a := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
		a.Name, a.Value = name, &value
		r.Configs = append(r.Configs, a)
	}
	open, shown := kmsg.NewIncrementalAlterConfigsRequestResourceConfig(), "1234567"
	open.Name, open.Value = "retention.ms", &shown
	r.Configs = append(r.Configs, open)
	alter.Resources = append(alter.Resources, r)

	sasl := kmsg.NewPtrSASLAuthenticateRequest()
	sasl.SASLAuthBytes = []byte("\x00alice\x00" + secret)
	scram := kmsg.NewPtrAlterUserSCRAMCredentialsRequest()
	up := kmsg.NewAlterUserSCRAMCredentialsRequestUpsertion()
	up.Name, up.Salt, up.SaltedPassword = "alice", []byte(secret), []byte(secret)
	scram.Upsertions = append(scram.Upsertions, up)
	token := kmsg.NewPtrRenewDelegationTokenRequest()
	token.HMAC = []byte(secret)
	join := kmsg.NewPtrJoinGroupRequest()
	join.Protocols = []kmsg.JoinGroupRequestProtocol{{Name: "range", Metadata: []byte(secret)}}
	for _, m := range []any{alter, sasl, scram, token, join} {
		text := string(appendFields(nil, m))
		if strings.Contains(text, secret) {
			t.Errorf("%T tells the secret: %s", m, text)
		}
	}
	if text := string(appendFields(nil, alter)); !strings.Contains(text, shown) || strings.Count(text, "<hidden>") != 3 {
		t.Errorf("the open config is not told, or not three are hidden: %s", text)
	}
}
