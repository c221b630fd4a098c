// Package kafka runs Apache Kafka itself beside Millrace: the peer that answers
// are compared with. Its jars come from Maven by name and version and are kept
// under .cache/kafka; every server binds loopback only.
//
// It needs Java 17 or newer and Maven, and says so in one sentence where they
// are missing.
package kafka

import (
	"bytes"
	"cmp"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// The versions that are compared with: the newest, and the last one that still
// served what 4.0 dropped (KIP-896).
const (
	Newest = "4.4.0"
	Oldest = "3.9.2"
)

//go:embed pom.xml
var pom []byte

// Install fetches the jars of a version, once, and returns their class path.
func Install(ctx context.Context, version string) (string, error) {
	root, err := repository()
	if err != nil {
		return "", err
	}
	home := filepath.Join(root, ".cache", "kafka", version)
	libs := filepath.Join(home, "libs")
	done := filepath.Join(home, "installed")
	if b, err := os.ReadFile(done); err == nil && bytes.Equal(b, pom) {
		return libs + "/*", nil
	}
	for _, program := range []string{"java", "mvn"} {
		if _, err := exec.LookPath(program); err != nil {
			return "", fmt.Errorf("running Apache Kafka needs %s, which is not installed", program)
		}
	}
	if err := os.RemoveAll(home); err != nil {
		return "", err
	}
	if err := os.MkdirAll(home, 0o755); err != nil {
		return "", err
	}
	if err := os.WriteFile(filepath.Join(home, "pom.xml"), pom, 0o644); err != nil {
		return "", err
	}
	cmd := exec.CommandContext(ctx, "mvn", "-q", "-B", "-f", filepath.Join(home, "pom.xml"), "-Dkafka.version="+version,
		"dependency:copy-dependencies", "-DoutputDirectory="+libs)
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("fetching Apache Kafka %s with Maven: %w\n%s", version, err, out)
	}
	return libs + "/*", os.WriteFile(done, pom, 0o644)
}

// logger fetches the jar that makes a server log, once, and returns what goes before its class path: by itself a server has
// a logger that is silent.
func logger(ctx context.Context, version string) (string, error) {
	root, err := repository()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(root, ".cache", "kafka", version, "logger")
	if found, _ := filepath.Glob(filepath.Join(dir, "*.jar")); len(found) > 0 {
		return dir + "/*", nil
	}
	cmd := exec.CommandContext(ctx, "mvn", "-q", "-B", "dependency:copy", "-Dartifact=org.slf4j:slf4j-simple:1.7.36", "-DoutputDirectory="+dir)
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("fetching a logger with Maven: %w\n%s", err, out)
	}
	return dir + "/*", nil
}

// repository is the root of this checkout: the folder with go.mod.
func repository() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		up := filepath.Dir(dir)
		if up == dir {
			return "", errors.New("not inside the repository")
		}
		dir = up
	}
}

// Options of a server. The zero value is the newest version on free ports in a
// temporary directory.
type Options struct {
	Version    string
	Dir        string            // where its data lies; "": a directory removed at Stop
	Port       int               // of the broker listener; 0: a free one
	Controller int               // of the controller listener; 0: a free one
	Properties map[string]string // over the defaults of one combined node
	Features   []string          // NAME=LEVEL, at formatting
	JVM        []string          // more arguments of the server's java
	Output     io.Writer         // of the server's process; nil: dropped
	Logged     bool              // the server writes its log to Output, from INFO on, a line each: [thread] LEVEL class - text
	Within     time.Duration     // how long it may take to become ready; 0: three minutes
}

// Server is a running Apache Kafka.
type Server struct {
	Bootstrap  string // HOST:PORT of the broker listener
	Controller string // HOST:PORT of the controller listener
	ClusterID  string
	Took       time.Duration // from exec to ready, formatting aside

	cmd     *exec.Cmd
	exited  chan error
	cleanup func()
}

// ErrEnded is what Start gives when the server's process ended before it was ready.
var ErrEnded = errors.New("the server ended while it started")

// Start formats a directory if it is empty, starts the server and waits until
// it has metadata.
func Start(ctx context.Context, o Options) (*Server, error) {
	if o.Version == "" {
		o.Version = Newest
	}
	cp, err := Install(ctx, o.Version)
	if err != nil {
		return nil, err
	}
	s := &Server{exited: make(chan error, 1), cleanup: func() {}}
	if o.Dir == "" {
		if o.Dir, err = os.MkdirTemp("", "apache-kafka-"); err != nil {
			return nil, err
		}
		dir := o.Dir
		s.cleanup = func() { os.RemoveAll(dir) }
	}
	if o.Port == 0 {
		if o.Port, err = freePort(); err != nil {
			return nil, err
		}
	} else if l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", o.Port)); err != nil {
		return nil, fmt.Errorf("port %d is taken: %w", o.Port, err)
	} else if err := l.Close(); err != nil {
		return nil, err
	}
	controller := o.Controller
	for controller == 0 || controller == o.Port {
		if controller, err = freePort(); err != nil {
			return nil, err
		}
	}
	s.Bootstrap = fmt.Sprintf("127.0.0.1:%d", o.Port)
	s.Controller = fmt.Sprintf("127.0.0.1:%d", controller)
	file := filepath.Join(o.Dir, "server.properties")
	if err := os.WriteFile(file, properties(o, s), 0o644); err != nil {
		return nil, err
	}
	if err := s.format(ctx, cp, o, file); err != nil {
		s.cleanup()
		return nil, err
	}
	arguments := append([]string{"-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"}, o.JVM...)
	if o.Logged {
		first, err := logger(ctx, o.Version)
		if err != nil {
			s.cleanup()
			return nil, err
		}
		cp = first + string(os.PathListSeparator) + cp
		arguments = append(arguments, "-Dorg.slf4j.simpleLogger.logFile=System.out")
	}
	s.cmd = exec.Command("java", append(arguments, "-cp", cp, "kafka.Kafka", file)...)
	s.cmd.Stdout, s.cmd.Stderr = o.Output, o.Output
	s.cmd.SysProcAttr = dieWithParent()
	begun := time.Now()
	if err := s.cmd.Start(); err != nil {
		s.cleanup()
		return nil, err
	}
	go func() { s.exited <- s.cmd.Wait() }()
	if err := s.await(ctx, cmp.Or(o.Within, 3*time.Minute)); err != nil {
		s.Stop()
		return nil, err
	}
	s.Took = time.Since(begun)
	return s, nil
}

// Format makes the directory of a server that was never started: it lies under data in o.Dir.
func Format(ctx context.Context, o Options) error {
	if o.Version == "" {
		o.Version = Newest
	}
	cp, err := Install(ctx, o.Version)
	if err != nil {
		return err
	}
	s := &Server{Bootstrap: "127.0.0.1:9092", Controller: "127.0.0.1:9093"}
	file := filepath.Join(o.Dir, "server.properties")
	if err := os.WriteFile(file, properties(o, s), 0o644); err != nil {
		return err
	}
	return s.format(ctx, cp, o, file)
}

func properties(o Options, s *Server) []byte {
	p := map[string]string{
		"process.roles": "broker,controller", "node.id": "1", "controller.quorum.voters": "1@" + s.Controller,
		"listeners":            "PLAINTEXT://" + s.Bootstrap + ",CONTROLLER://" + s.Controller,
		"advertised.listeners": "PLAINTEXT://" + s.Bootstrap, "controller.listener.names": "CONTROLLER",
		"log.dirs":                         filepath.Join(o.Dir, "data"),
		"offsets.topic.replication.factor": "1", "transaction.state.log.replication.factor": "1", "transaction.state.log.min.isr": "1",
		"group.initial.rebalance.delay.ms": "0", "offsets.topic.num.partitions": "4", "transaction.state.log.num.partitions": "4",
	}
	if !strings.HasPrefix(o.Version, "3.") {
		p["share.coordinator.state.topic.replication.factor"] = "1"
		p["share.coordinator.state.topic.min.isr"] = "1"
		p["share.coordinator.state.topic.num.partitions"] = "4"
	}
	for k, v := range o.Properties {
		p[k] = v
	}
	var b bytes.Buffer
	for k, v := range p {
		fmt.Fprintf(&b, "%s=%s\n", k, v)
	}
	return b.Bytes()
}

func (s *Server) format(ctx context.Context, cp string, o Options, file string) error {
	if _, err := os.Stat(filepath.Join(o.Dir, "data", "meta.properties")); err == nil {
		return nil
	}
	s.ClusterID = "MkU3OEVBNTcwNTJENDM2Qg"
	args := []string{"-XX:TieredStopAtLevel=1", "-cp", cp, "kafka.tools.StorageTool", "format", "--cluster-id", s.ClusterID, "-c", file}
	for _, f := range o.Features {
		args = append(args, "--feature", f)
	}
	cmd := exec.CommandContext(ctx, "java", args...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("formatting Apache Kafka's directory: %w\n%s", err, out)
	}
	return nil
}

// await asks for API versions until the answer shows that the server has loaded
// its metadata.
func (s *Server) await(ctx context.Context, within time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	for {
		if ready(s.Bootstrap) {
			return nil
		}
		select {
		case err := <-s.exited:
			s.exited <- err
			return fmt.Errorf("%w: %v", ErrEnded, err)
		case <-ctx.Done():
			return fmt.Errorf("the server did not become ready within %v", within)
		case <-time.After(100 * time.Millisecond):
		}
	}
}

func ready(addr string) bool {
	nc, err := net.DialTimeout("tcp", addr, time.Second)
	if err != nil {
		return false
	}
	defer nc.Close()
	nc.SetDeadline(time.Now().Add(2 * time.Second))
	req := kmsg.NewPtrApiVersionsRequest()
	req.Version, req.ClientSoftwareName, req.ClientSoftwareVersion = 3, "millrace-compat", "1"
	if _, err := nc.Write(kmsg.NewRequestFormatter().AppendRequest(nil, req, 1)); err != nil {
		return false
	}
	var size [4]byte
	if _, err := io.ReadFull(nc, size[:]); err != nil {
		return false
	}
	body := make([]byte, int(size[2])<<8|int(size[3]))
	if _, err := io.ReadFull(nc, body); err != nil || len(body) < 4 {
		return false
	}
	resp := kmsg.NewPtrApiVersionsResponse()
	resp.Version = 3
	return resp.ReadFrom(body[4:]) == nil && len(resp.FinalizedFeatures) > 0
}

// Kill ends the server as a crash does.
func (s *Server) Kill() { s.end(syscall.SIGKILL) }

// Stop ends the server in order, and removes its directory if Start made it.
func (s *Server) Stop() {
	s.end(syscall.SIGTERM)
	s.cleanup()
}

func (s *Server) end(sig syscall.Signal) {
	if s.cmd == nil || s.cmd.Process == nil {
		return
	}
	s.cmd.Process.Signal(sig)
	select {
	case err := <-s.exited:
		s.exited <- err
	case <-time.After(30 * time.Second):
		s.cmd.Process.Kill()
		s.exited <- <-s.exited
	}
}

// PID is the server's process.
func (s *Server) PID() int { return s.cmd.Process.Pid }

// Ended says whether the server's process has ended.
func (s *Server) Ended() bool {
	select {
	case err := <-s.exited:
		s.exited <- err
		return true
	default:
		return false
	}
}

// Wait returns when the server has ended.
func (s *Server) Wait() error {
	err := <-s.exited
	s.exited <- err
	return err
}

// freePort finds a port that nobody listens on, below those that the system gives to whoever asks for any: between here and the
// JVM's own bind, seconds later, it goes to nobody who asks so.
func freePort() (int, error) {
	var err error
	for range 100 {
		var l net.Listener
		if l, err = net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", 20000+rand.IntN(12000))); err == nil {
			defer l.Close()
			return l.Addr().(*net.TCPAddr).Port, nil
		}
	}
	return 0, fmt.Errorf("finding a free port: %w", err)
}
