//go:build compat

package metrics

import (
	"context"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"millrace/compat-tests/kafka"
	"millrace/compat-tests/launch"
)

var update = flag.Bool("update", false, "write testdata/kafka.txt anew, from a Kafka")

const record44 = "testdata/kafka.txt"

// load is what both servers go through: a topic of two partitions, records, a
// group that reads and commits them, and a produce to a topic nobody has. The
// client stays: some of what is compared is there while a connection is.
func load(t *testing.T, addr string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	cl, err := kgo.NewClient(kgo.SeedBrokers(addr), kgo.ConsumerGroup("readers"), kgo.ConsumeTopics("load"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.DisableAutoCommit(), kgo.FetchMaxWait(300*time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	if _, err := kadm.NewClient(cl).CreateTopic(ctx, 2, 1, nil, "load"); err != nil {
		t.Fatal(err)
	}
	for i := range 20 {
		if err := cl.ProduceSync(ctx, &kgo.Record{Topic: "load", Key: []byte{byte(i)}, Value: []byte("value")}).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	for read := 0; read < 20; {
		f := cl.PollFetches(ctx)
		if err := f.Err0(); err != nil {
			t.Fatal(err)
		}
		read += f.NumRecords()
	}
	if err := cl.CommitUncommittedOffsets(ctx); err != nil {
		t.Fatal(err)
	}
	// One fetch that finds nothing until its time is up.
	idle, end := context.WithTimeout(ctx, 1500*time.Millisecond)
	defer end()
	cl.PollFetches(idle)
}

func get(t *testing.T, url string) (int, string) {
	t.Helper()
	client := http.Client{Timeout: 60 * time.Second}
	resp, err := client.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(b)
}

func scrape(t *testing.T, url string) map[string]*family {
	t.Helper()
	status, text := get(t, url)
	if status != http.StatusOK {
		t.Fatalf("%s: %d %s", url, status, text)
	}
	m, err := parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func ours(t *testing.T, arguments ...string) (bootstrap, url string) {
	t.Helper()
	at, err := launch.FreeAddress()
	if err != nil {
		t.Fatal(err)
	}
	b, err := launch.Start(launch.Options{Dir: filepath.Join(t.TempDir(), "data"), Args: append([]string{"--http-address", at}, arguments...)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Stop(); err != nil {
			t.Error(err)
		}
	})
	return b.Bootstrap, "http://" + at
}

func missing(t *testing.T) []string {
	t.Helper()
	b, err := os.ReadFile("../../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	list := lackingIn(string(b))
	if len(list) == 0 {
		t.Fatal("docs/metrics.md lists nothing as missing")
	}
	return list
}

// What is shown after the load, beside what a Kafka showed once.
func TestNamesAreThoseRecorded(t *testing.T) {
	text, err := os.ReadFile(record44)
	if err != nil {
		t.Fatal(err)
	}
	bootstrap, url := ours(t)
	load(t, bootstrap)
	for _, d := range compare(scrape(t, url+"/metrics"), recorded(string(text)), missing(t)) {
		t.Error(d)
	}
	// The older style differs in the counts of histograms alone.
	now, old := scrape(t, url+"/metrics"), scrape(t, url+"/metrics?style=jmx0")
	for name := range now {
		want := name
		if short, ok := strings.CutSuffix(name, "_count_total"); ok {
			want = short + "_count"
		}
		if old[want] == nil {
			t.Errorf("the older style lacks %s", want)
		}
	}
	for path, want := range map[string]int{"/healthz": 200, "/readyz": 200, "/metrics?style=x": 400, "/debug/pprof/": 404} {
		if status, _ := get(t, url+path); status != want {
			t.Errorf("%s: %d, not %d", path, status, want)
		}
	}
}

// The record beside a running Kafka with the exporter.
func TestRecordIsKafkas(t *testing.T) {
	if testing.Short() {
		t.Skip("starts Apache Kafka")
	}
	libs := install(t)
	at, err := launch.FreeAddress()
	if err != nil {
		t.Fatal(err)
	}
	rules, err := filepath.Abs("exporter.yml")
	if err != nil {
		t.Fatal(err)
	}
	k, err := kafka.Start(context.Background(), kafka.Options{JVM: []string{fmt.Sprintf("-javaagent:%s/jmx_prometheus_javaagent-1.0.1.jar=%s:%s", libs, at, rules)}})
	if err != nil {
		t.Fatal(err)
	}
	defer k.Stop()
	load(t, k.Bootstrap)
	theirs := scrape(t, "http://"+at+"/metrics")
	if *update {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(record44, []byte(record(theirs)), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(record44)
	if err != nil {
		t.Fatal(err)
	}
	if got := record(theirs); got != string(text) {
		t.Errorf("Kafka shows something else than what is recorded; -update writes it anew\n%s", difference(string(text), got))
	}
}

// difference lists the lines that only one of two texts has.
func difference(a, b string) string {
	in := func(list []string) map[string]bool {
		m := map[string]bool{}
		for _, s := range list {
			m[s] = true
		}
		return m
	}
	la, lb := strings.Split(a, "\n"), strings.Split(b, "\n")
	ma, mb := in(la), in(lb)
	var out []string
	for _, s := range la {
		if !mb[s] {
			out = append(out, "- "+s)
		}
	}
	for _, s := range lb {
		if !ma[s] {
			out = append(out, "+ "+s)
		}
	}
	return strings.Join(out, "\n")
}

// install fetches the exporter and a Java client, once.
func install(t *testing.T) string {
	t.Helper()
	root, err := launch.Root()
	if err != nil {
		t.Fatal(err)
	}
	libs := filepath.Join(root, ".cache", "metrics")
	if _, err := os.Stat(filepath.Join(libs, "jmx_prometheus_javaagent-1.0.1.jar")); err == nil {
		return libs
	}
	for _, program := range []string{"java", "mvn"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Fatalf("this needs %s, which is not installed", program)
		}
	}
	if out, err := exec.Command("mvn", "-q", "-B", "-f", "pom.xml", "dependency:copy-dependencies", "-DoutputDirectory="+libs).CombinedOutput(); err != nil {
		t.Fatalf("fetching the exporter with Maven: %v\n%s", err, out)
	}
	return libs
}

// A real client pushes its own metrics, and they are shown (KIP-714).
func TestJavaClientPushes(t *testing.T) {
	libs := install(t)
	bootstrap, url := ours(t)
	cl, err := kgo.NewClient(kgo.SeedBrokers(bootstrap))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	subscribe(t, cl)
	cmd := exec.Command("java", "-XX:TieredStopAtLevel=1", "-cp", libs+"/*", "Push.java", bootstrap)
	var errs strings.Builder
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("the client: %v\n%s", err, errs.String())
	}
	id := strings.TrimSpace(string(out))
	_, text := get(t, url+"/metrics")
	for _, want := range []string{"kafka_client_producer_connection_creation_total{", "kafka_client_producer_node_request_latency_avg{"} {
		found := false
		for _, line := range strings.Split(text, "\n") {
			found = found || strings.HasPrefix(line, want) && strings.Contains(line, `client_instance_id="`+id+`"`) &&
				strings.Contains(line, `client_id="pusher"`) && strings.Contains(line, `client_software_name="apache-kafka-java"`)
		}
		if !found {
			t.Errorf("no series %s of client %s", want, id)
		}
	}
	if t.Failed() {
		for _, line := range strings.Split(text, "\n") {
			if strings.HasPrefix(line, "kafka_client") {
				t.Log(line)
			}
		}
	}
}

// subscribe asks all clients for all metrics, each second.
func subscribe(t *testing.T, cl *kgo.Client) {
	t.Helper()
	all, second := "*", "1000"
	req := kmsgAlter(map[string]*string{"metrics": &all, "interval.ms": &second})
	resp, err := req.RequestWith(context.Background(), cl)
	if err != nil {
		t.Fatal(err)
	}
	if code := resp.Resources[0].ErrorCode; code != 0 {
		t.Fatalf("subscribing: code %d", code)
	}
}

// lackingIn reads the list of what is missing from the documentation.
func lackingIn(doc string) []string {
	_, list, _ := strings.Cut(doc, "## What Kafka shows and Millrace does not\n")
	var out []string
	for _, line := range strings.Split(list, "\n") {
		if rest, ok := strings.CutPrefix(line, "| `"); ok {
			name, _, _ := strings.Cut(rest, "`")
			out = append(out, name)
		}
	}
	return out
}
