//go:build deps

package millrace

import (
	_ "github.com/cockroachdb/datadriven"
	_ "github.com/klauspost/compress/zstd"
	_ "github.com/magiconair/properties"
	_ "github.com/pierrec/lz4/v4"
	_ "github.com/spf13/cobra"
	_ "github.com/tidwall/btree"
	_ "github.com/twmb/franz-go/pkg/kadm"
	_ "github.com/twmb/franz-go/pkg/kerr"
	_ "github.com/twmb/franz-go/pkg/kgo"
	_ "github.com/twmb/franz-go/pkg/kmsg"
	_ "go.etcd.io/bbolt"
	_ "go.etcd.io/raft/v3"
	_ "go.uber.org/goleak"
	_ "go.uber.org/zap"
	_ "golang.org/x/sys/unix"
	_ "golang.org/x/term"
	_ "pgregory.net/rapid"
)
