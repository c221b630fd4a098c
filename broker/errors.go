package broker

import (
	"errors"
	"io/fs"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"

	"millrace/broker/partition"
	"millrace/broker/replica"
	"millrace/broker/session"
	"millrace/storage/batch"
	"millrace/storage/log"
	"millrace/storage/producer"
)

// codeOf is the one place where the errors of storage and partitions become
// Kafka's error codes.
func codeOf(err error) int16 {
	if err == nil {
		return 0
	}
	var refused *batch.Error
	if errors.As(err, &refused) {
		return codeOfBatch(refused.Kind)
	}
	for _, m := range plainErrors {
		if errors.Is(err, m.err) {
			return m.code.Code
		}
	}
	var (
		sequence *producer.SequenceError
		epoch    *producer.EpochError
		txn      *producer.TxnStateError
		fenced   *producer.CoordinatorFencedError
		offline  *log.OfflineError
		unusable *log.UnusableError
		noFile   *log.NotFileError
		tooLarge *log.BatchTooLargeError
		stale    *replica.StaleBrokerError
		stranger *replica.NotReplicaError
		known    *kerr.Error
		damage   *log.CorruptError
		index    *log.IndexError
		disk     *fs.PathError
	)
	switch {
	case errors.As(err, &sequence):
		return kerr.OutOfOrderSequenceNumber.Code
	case errors.As(err, &epoch):
		return kerr.InvalidProducerEpoch.Code
	case errors.As(err, &txn):
		return kerr.InvalidTxnState.Code
	case errors.As(err, &fenced):
		return kerr.TransactionCoordinatorFenced.Code
	case errors.As(err, &offline), errors.As(err, &unusable), errors.As(err, &noFile):
		return kerr.KafkaStorageError.Code
	case errors.As(err, &tooLarge):
		return kerr.RecordListTooLarge.Code
	case errors.As(err, &stale), errors.As(err, &stranger):
		return kerr.NotLeaderForPartition.Code
	case errors.As(err, &known):
		return known.Code
	case errors.As(err, &damage), errors.As(err, &index):
		return kerr.CorruptMessage.Code
	case errors.As(err, &disk):
		return kerr.KafkaStorageError.Code
	}
	return kerr.UnknownServerError.Code
}

var plainErrors = []struct {
	err  error
	code *kerr.Error
}{
	{partition.ErrNotLeader, kerr.NotLeaderForPartition},
	{partition.ErrNotReplica, kerr.NotLeaderForPartition},
	{partition.ErrGone, kerr.UnknownTopicOrPartition},
	{log.ErrClosed, kerr.UnknownTopicOrPartition},
	{log.ErrNoDescriptor, kerr.KafkaStorageError}, // as for any error of the disk; the directory stays
	{partition.ErrNotEnoughReplicas, kerr.NotEnoughReplicas},
	{partition.ErrNotEnoughReplicasAfterAppend, kerr.NotEnoughReplicasAfterAppend},
	{partition.ErrTimedOut, kerr.RequestTimedOut},
	{partition.ErrFencedLeaderEpoch, kerr.FencedLeaderEpoch},
	{partition.ErrUnknownLeaderEpoch, kerr.UnknownLeaderEpoch},
	{partition.ErrOffsetNotAvailable, kerr.OffsetNotAvailable},
	{partition.ErrOffsetOutOfRange, kerr.OffsetOutOfRange},
	{partition.ErrOnlyCompacted, kerr.PolicyViolation},
	{batch.ErrTooLargeToDowngrade, kerr.MessageTooLarge},
	{session.ErrUnknown, kerr.FetchSessionIDNotFound},
	{session.ErrEpoch, kerr.InvalidFetchSessionEpoch},
	{session.ErrTopicIDs, kerr.FetchSessionTopicIDError},
}

func codeOfBatch(k batch.Kind) int16 {
	switch k {
	case batch.Corrupt:
		return kerr.CorruptMessage.Code
	case batch.UnsupportedMagic, batch.InvalidRecord:
		return kerr.InvalidRecord.Code
	case batch.InvalidTimestamp:
		return kerr.InvalidTimestamp.Code
	case batch.UnsupportedCompression:
		return kerr.UnsupportedCompressionType.Code
	case batch.TooLarge:
		return kerr.MessageTooLarge.Code
	case batch.TooLargeForSegment:
		return kerr.RecordListTooLarge.Code
	}
	return kerr.UnknownServerError.Code
}

// errorText is a message for an error code, where Kafka sends the text of its
// exception.
func errorText(code int16) string {
	if code == 0 {
		return ""
	}
	if e := kerr.TypedErrorForCode(code); e != nil {
		return e.Description
	}
	return ""
}

// nodes is a small set of node ids, in order of coming.
type nodes []int32

func (n *nodes) add(id int32) {
	if !slices.Contains(*n, id) {
		*n = append(*n, id)
	}
}
