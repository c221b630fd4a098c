package broker

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"sync"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"millrace/broker/auth"
	"millrace/broker/coordinator"
	"millrace/broker/partition"
	"millrace/controller"
	"millrace/controller/image"
	"millrace/controller/raftlog"
	"millrace/controller/state"
	"millrace/storage"
	"millrace/storage/disk"
)

// waitForReplication is how long a stopping broker lets acks=all wait.
const waitForReplication = 5 * time.Second

// start brings a broker up to where it is ready. The order is: addresses (a
// taken port shows before anything is touched), data directories, metadata,
// registration, replicas and coordinators through the first images, then the
// network. Whoever connects earlier waits in the backlog and never sees a
// broker that is half there.
func start(ctx context.Context, o Options) (b *Broker, err error) {
	begun := time.Now()
	if o.Config, err = identify(o); err != nil {
		return nil, err
	}
	b = newBroker(o)
	defer func() {
		if err != nil {
			err = b.stop(b.because(ctx, err))
		}
	}()
	if err := b.startMonitor(ctx, o.Monitoring); err != nil {
		return b, err
	}
	if err := b.bind(ctx); err != nil {
		return b, err
	}
	if err := b.openStore(o); err != nil {
		return b, err
	}
	if err := b.startController(o); err != nil {
		return b, err
	}
	src := b.controller.Source()
	b.publisher.current.Store(image.New())
	if err := b.publisher.catchUp(ctx, src); err != nil {
		return b, fmt.Errorf("waiting for the cluster's metadata: %w", err)
	}
	if id := b.applied().ClusterID(); o.ClusterID != "" && id != o.ClusterID {
		return b, otherCluster(o.ClusterID, id, b.config.MetadataLogDir())
	}
	if err := b.makeServer(ctx); err != nil {
		return b, err
	}
	b.background(func(ctx context.Context) { b.publisher.run(ctx, src) })
	if err := b.register(ctx); err != nil {
		return b, err
	}
	// From here on the cluster counts the time that it hears nothing, however long the rest takes.
	b.background(b.heartbeats)
	// Now that all there was before the registration is applied, what is left over
	// belongs to nothing.
	b.replicas.putAsideStrays()
	if err := b.settle(ctx); err != nil {
		return b, err
	}
	if err := b.tellFound(ctx); err != nil {
		return b, err
	}
	if err := b.awaitCoordinators(ctx); err != nil {
		return b, err
	}
	if err := b.lostTooMuch(); err != nil {
		return b, err
	}
	b.warnOfFactors()
	if err := b.declare(ctx, o.Topics); err != nil {
		return b, err
	}
	b.background(b.watchDirectories)
	b.background(b.housekeep)
	b.background(b.expireFollowers)
	b.background(b.flushDue)
	b.background(b.store.Settle)
	b.startCleaner()
	b.background(b.tellDirectories)
	b.background(b.moveReplicas)
	b.serve()
	b.serving = true
	b.phase.Store(phaseRunning)
	b.logReady(begun)
	if o.Ready != nil {
		o.Ready(Info{Bootstrap: b.bootstrap(), NodeID: b.nodeID, ClusterID: b.applied().ClusterID()})
	}
	return b, nil
}

// because is why a start ends with an error. What is lost of the data directories is
// behind whatever else does not go well then: a registration names none to the
// controller, which refuses it without a word of files.
func (b *Broker) because(ctx context.Context, err error) error {
	if b.store == nil || ctx.Err() != nil {
		return err
	}
	if lost := b.lostTooMuch(); lost != nil {
		return lost
	}
	return err
}

func newBroker(o Options) *Broker {
	b := &Broker{config: o.Config, log: o.Logger, now: o.Now, authorizer: o.Authorizer, nodeID: o.Config.NodeID(), outside: o.Outside, features: state.SupportedFeatures(), failed: make(chan error, 1)}
	if b.log == nil {
		b.log = zap.NewNop()
	}
	if b.now == nil {
		b.now = time.Now
	}
	if b.authorizer == nil {
		b.authorizer = auth.AllowAll{}
	}
	b.version, b.requests = o.Version, newRequestLog(o.LogRequests, b.log)
	b.phase.Store(phaseStarting)
	b.lostBefore = map[string]bool{}
	b.listen = o.Listen
	if b.listen == nil {
		b.listen = listenTCP
	}
	b.level = zap.NewAtomicLevel()
	if o.Level != nil {
		b.level = *o.Level
	}
	b.refused = b.log.WithOptions(zap.WrapCore(func(c zapcore.Core) zapcore.Core {
		return zapcore.NewSamplerWithOptions(c, time.Second, 1, 0)
	}))
	b.publisher.b, b.publisher.waiters, b.publisher.warned = b, map[int64][]chan struct{}{}, map[string]bool{}
	b.replicas.b, b.replicas.at, b.replicas.offline = b, map[replicaKey]*partition.Partition{}, map[replicaKey]error{}
	b.replicas.lacking.keys = map[replicaKey]bool{}
	b.coordinators.b, b.coordinators.shards, b.coordinators.epochs = b, map[int32]*coordinator.Shard{}, map[int32]int32{}
	b.directories.untold, b.directories.wake = map[replicaKey][16]byte{}, make(chan struct{}, 1)
	b.lost = make(chan struct{}, 1)
	b.recoveries.all = map[storage.Name]bool{}
	b.moves.wake = make(chan struct{}, 1)
	b.relisted = make(chan struct{}, 1)
	b.producerIDs = newProducerIDs(b.allotProducerIDs)
	b.telemetry.init(b)
	b.sessions = newFetchSessions(int(b.config.Int("max.incremental.fetch.session.cache.slots")))
	rand.Read(b.incarnation[:])
	b.running, b.halt = context.WithCancel(context.Background())
	return b
}

func (b *Broker) openStore(o Options) error {
	fs := o.FS
	if fs == nil {
		fs = disk.OS{}
	}
	store, err := storage.Open(storage.StoreOptions{
		Dirs: b.config.LogDirs(), FS: fs, Now: b.now, Logger: b.log.Named("storage"),
		NodeID: b.nodeID, Flushed: b.flushObserver(), Failed: b.directoryLost, ProducerExpireMs: b.config.Long("producer.id.expiration.ms"),
		// A look at every turn of the housekeeping is as often as can be.
		RecoveryPointEvery: max(1, b.longMillis("log.flush.offset.checkpoint.interval.ms")),
		LogStartEvery:      max(1, b.longMillis("log.flush.start.offset.checkpoint.interval.ms")),
		HighWatermarkEvery: max(1, b.longMillis("replica.high.watermark.checkpoint.interval.ms")),
	})
	if err != nil {
		return err
	}
	b.store = store
	for _, err := range store.Failures() {
		b.lostBefore[err.Error()] = true
	}
	if err := b.checkCordoned(b.config.Set); err != nil {
		return err
	}
	b.cordon(b.config.Set)
	b.logOpened()
	return nil
}

func (b *Broker) startController(o Options) error {
	rl, dir := o.RaftLog, filepath.Join(b.config.MetadataLogDir(), metadataLog)
	if rl == nil {
		if _, err := (disk.OS{}).Stat(dir); errors.Is(err, fs.ErrNotExist) {
			if err := b.nothingToLose(dir); err != nil {
				return err // and leave no empty metadata behind
			}
		}
		opened, err := raftlog.Open(dir)
		if err != nil {
			return fmt.Errorf("opening the metadata: %w", err)
		}
		rl = opened
	}
	if err := b.isNewest(rl, dir); err != nil {
		return errors.Join(err, rl.Abandon())
	}
	c, err := controller.Start(b.running, controller.Options{
		NodeID: b.nodeID, ClusterID: b.foundedAs(o), Directory: b.store.DirectoryID(), RaftLog: rl,
		Static: b.config, Logger: b.log.Named("controller"), Now: b.now, OwnAddress: b.isOwnAddress,
		Observe: b.controllerObserver(),
	})
	if errors.Is(err, controller.ErrDamaged) {
		return fmt.Errorf("%s: %w", dir, err)
	}
	if err != nil {
		return err
	}
	b.controller, b.client = c, c.Client()
	b.started.Store(c)
	b.background(func(ctx context.Context) {
		select {
		case <-c.Done():
			if err := c.Err(); err != nil {
				b.fail(err)
			}
		case <-ctx.Done():
		}
	})
	return nil
}

// isNewest refuses to go on without metadata where a broker has been, and says so
// where they are of an earlier time than the data directories, as after a copy was
// brought back: topics that were made since are not known. Only what a stop in order
// has left tells of that here, as a broker epoch is the index of the entry that
// registered the broker; logs with records tell of it later (tellAhead).
func (b *Broker) isNewest(rl raftlog.Log, metadata string) error {
	if rl.Self() == 0 {
		return b.nothingToLose(metadata)
	}
	last, err := rl.LastIndex()
	if epoch := b.store.ClosedUnder(); err == nil && epoch > int64(last) {
		b.log.Warn("the metadata are older than the last stop: topics and configs that were made since are not in them",
			zap.String("metadata", metadata), zap.Uint64("last_entry", last), zap.Int64("stopped_under_broker_epoch", epoch))
	}
	return err
}

// nothingToLose refuses to found a cluster where partitions lie, or where a broker
// has stopped in order.
func (b *Broker) nothingToLose(metadata string) error {
	if found := b.store.Unopened(); len(found) > 0 {
		return fmt.Errorf("%w of Millrace's: %s-%d is there, and %s does not know it; use an empty directory, or what 'millrace import' makes of one that Apache Kafka has written",
			ErrNoMetadata, found[0].Topic, found[0].Partition, metadata)
	}
	if epoch := b.store.ClosedUnder(); epoch >= 0 {
		return fmt.Errorf("%w of Millrace's: they were closed under broker epoch %d, and %s knows of none; bring back a copy of it, or use an empty directory", ErrNoMetadata, epoch, metadata)
	}
	return nil
}

// background runs something until the broker stops; stop waits for it.
func (b *Broker) background(f func(ctx context.Context)) {
	b.tasks.Add(1)
	go func() {
		defer b.tasks.Done()
		f(b.running)
	}()
}

// settle does what remains once the broker is registered, all at the same time:
// the first heartbeat, which ends the fence; the first block of producer ids,
// which the controller decides with it in one entry; and the file that says
// whose the data directories are.
func (b *Broker) settle(ctx context.Context) error {
	tasks := []func() error{
		func() error { return b.beat(ctx, startTimeout) },
		func() error {
			if err := b.producerIDs.fill(ctx); err != nil {
				return fmt.Errorf("waiting for producer ids: %w", err)
			}
			return nil
		},
		func() error { return b.store.WriteMeta(b.applied().ClusterID(), b.nodeID) },
	}
	errs := make([]error, len(tasks))
	var wg sync.WaitGroup
	for i, task := range tasks {
		wg.Go(func() { errs[i] = task() })
	}
	wg.Wait()
	return errors.Join(errs...)
}

// How long a start waits for coordinators before it says what for, and before it
// goes on without them, as Kafka does from the first: who asks them is told to ask
// again meanwhile.
const (
	loadTold    = 5 * time.Second
	loadTimeout = time.Minute
)

// awaitCoordinators waits until every shard has loaded, or could not, which it has
// told itself; or until that takes too long.
func (b *Broker) awaitCoordinators(ctx context.Context) error {
	begun := time.Now()
	for _, patience := range []time.Duration{loadTold, loadTimeout - loadTold} {
		within, cancel := context.WithTimeout(ctx, patience)
		err := b.coordinators.awaitSettled(within)
		cancel()
		if err == nil || ctx.Err() != nil {
			return ctx.Err()
		}
		if patience == loadTold {
			b.log.Info("the start waits for groups and committed offsets to be loaded", zap.String("from", ofOffsetsTopic(b.coordinators.unsettled())))
		}
	}
	b.coordinators.late.Store(true)
	b.log.Warn("groups and committed offsets are still being loaded: the start goes on without them, and their groups are told to ask again",
		zap.String("from", ofOffsetsTopic(b.coordinators.unsettled())))
	b.background(func(ctx context.Context) {
		if b.coordinators.awaitSettled(ctx) == nil {
			b.coordinators.late.Store(false)
			b.log.Info("groups and committed offsets are loaded", zap.Duration("took", time.Since(begun).Round(time.Millisecond)))
		}
	})
	return nil
}

// stop ends a broker in the opposite order: the network drains, the publisher and
// housekeeping end, and who gathers metrics, then coordinators, the metadata closes, logs are flushed and
// marked clean.
// It is also the way out of a start that failed half-way. cause is why the broker
// stops if that is no order; it is the first of the errors given back.
func (b *Broker) stop(cause error) error {
	errs := []error{cause}
	defer b.logStop(cause)()
	b.phase.Store(phaseStopping)
	if b.server != nil {
		ctx, cancel := context.WithTimeout(context.Background(), waitForReplication)
		if err := b.server.Drain(ctx); err != nil {
			b.log.Warn("connections were cut", zap.Error(err))
		}
		cancel()
	}
	b.halt()
	b.tasks.Wait() // the publisher among them: it makes no new coordinators and opens no listeners now
	b.seen.awaitGatherer()
	for _, l := range b.listeners() {
		for _, s := range l.sockets {
			s.Close() // those that were served are closed already
		}
	}
	b.coordinators.stop()
	if b.controller != nil {
		switch err := b.controller.Stop(); {
		case err == nil || errors.Is(cause, err):
		case errors.Is(cause, controller.ErrStopped):
			errs[0] = err // whoever asked it knows only that it is gone
		default:
			errs = append(errs, err)
		}
	}
	for _, p := range b.replicas.all() {
		p.Close()
	}
	if b.store != nil {
		// A start that failed has written to no log that is not closed in order here.
		errs = append(errs, b.store.Close(cause == nil || !b.serving))
	}
	errs = append(errs, b.stopMonitor())
	return errors.Join(errs...)
}
