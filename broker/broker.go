// Package broker is one broker: it composes the rooms below it and answers
// requests.
//
// broker.go starts and stops everything in a written order; publish.go turns
// committed images into replicas and coordinators; apis.go is the one table of
// what is served; api_*.go hold one API each, opening with its versions, KIPs
// and behaviours. The hard decisions are made elsewhere, in pure rooms: groups
// in broker/group, replication in broker/replica, topics and configs in
// controller/state. Handlers authorise, look up, call, and put the outcome into
// Kafka's words.
package broker

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"millrace/broker/auth"
	"millrace/broker/monitor"
	"millrace/controller"
	"millrace/controller/config"
	"millrace/controller/image"
	"millrace/controller/raftlog"
	"millrace/storage"
	"millrace/storage/disk"
	"millrace/wire"
)

// Options are what a broker is made of. Config is needed; the rest has
// defaults, which tests replace.
type Options struct {
	Config *config.Static
	Logger *zap.Logger      // nil: silent
	Level  *zap.AtomicLevel // the level of Logger, for the broker-logger resource; nil: not changeable

	// ClusterID is the id of a cluster that is founded; "": a random one. A
	// directory of another cluster is then refused (ErrIdentity).
	ClusterID string
	Topics    []Topic // there before Ready is called

	// Ready is called once, when produce, InitProducerId and JoinGroup would
	// all succeed: the last one unless what is stored of its group does not load,
	// or takes longer than a start waits.
	Ready func(Info)

	Outside Outside // of a broker in a container; zero: not in one

	FS         disk.FS     // nil: the real one
	RaftLog    raftlog.Log // nil: bbolt in the metadata directory
	Listen     func(ctx context.Context, address string) (net.Listener, error)
	Authorizer auth.Authorizer // nil: everything is allowed
	Now        func() time.Time

	Monitoring Monitoring
	// LogRequests says which requests are logged with their answers; nil: none.
	LogRequests *RequestFilter
	Version     string // of the program, for /metrics
}

// Info is what a ready broker tells.
type Info struct {
	Bootstrap []string // HOST:PORT of each broker listener
	NodeID    int32
	ClusterID string
}

// Errors that stop a start, each explained in one line by its text.
var (
	// ErrAddressInUse: another process has the port.
	ErrAddressInUse = errors.New("address already in use")
	// ErrDirectoryInUse: another process has the data directory.
	ErrDirectoryInUse = storage.ErrLocked
	// ErrIdentity: the data directory belongs to another node or cluster.
	ErrIdentity = storage.ErrIdentity
	// ErrNestedDirectories: one data directory lies in another.
	ErrNestedDirectories = storage.ErrNested
	// ErrMetadataDirectory: the data directory that holds the metadata was given up.
	ErrMetadataDirectory = errors.New("the directory of the metadata has failed")
	// ErrNoMetadata: the data directories have been used, and there is no metadata
	// of Millrace's that belongs to them: none at all, or Apache Kafka's.
	ErrNoMetadata = errors.New("the data directories have no metadata")
)

// Broker is one running broker.
type Broker struct {
	config     *config.Static
	log        *zap.Logger
	level      zap.AtomicLevel
	now        func() time.Time
	authorizer auth.Authorizer
	nodeID     int32
	outside    Outside
	features   []image.FeatureRange
	seen       *observation // nil while no metrics are served
	listen     func(ctx context.Context, address string) (net.Listener, error)
	refused    *zap.Logger // at most one line a second of each kind

	store      *storage.Store
	cleaner    atomic.Pointer[storage.Cleaner] // nil: it does not run
	controller *controller.Controller
	client     controller.Client
	publisher  publisher
	replicas   replicas
	coordinators
	directories directories
	moves       moves
	recoveries  recoveries
	unreadable  unreadable
	producerIDs *producerIDs
	sessions    *fetchSessions
	server      *wire.Server
	bound       atomic.Pointer[[]listener] // what is open; replaced whole

	// opening guards open: whether what is bound is served. Listeners that a config
	// change brings are served at once from then on.
	opening sync.Mutex
	open    bool
	// lost is told when a data directory was given up.
	lost chan struct{}
	// lostBefore is why data directories were given up as they were opened, which the store has told.
	lostBefore map[string]bool
	// relisted wakes heartbeats when other listeners are bound than before.
	relisted chan struct{}

	incarnation [16]byte // random, of this life of the process
	brokerEpoch atomic.Int64

	telemetry clientTelemetry
	requests  *requestLog // nil: no request is logged

	version string
	phase   atomic.Int32
	monitor *monitor.Server                       // nil: there is no HTTP
	started atomic.Pointer[controller.Controller] // b.controller, for its own goroutine

	running  context.Context // ends when the broker stops
	halt     context.CancelFunc
	tasks    sync.WaitGroup
	serving  bool // the start is over; start's and stop's own
	failed   chan error
	failOnce sync.Once
}

// applied is the image that this broker stands for.
func (b *Broker) applied() *image.Image { return b.publisher.current.Load() }

// fail ends Run with an error; the first one counts.
func (b *Broker) fail(err error) {
	b.failOnce.Do(func() { b.failed <- err })
}

// Run is a broker from start to stop. It returns nil when ctx ended and the
// broker stopped in order.
func Run(ctx context.Context, o Options) error {
	b, err := start(ctx, o)
	if err != nil {
		return err
	}
	var cause error
	select {
	case <-ctx.Done():
	case cause = <-b.failed:
		cause = fmt.Errorf("the broker gives up: %w", cause)
	}
	return b.stop(cause)
}
