// Command kfake serves franz-go's kfake on a free port of loopback, with its
// data in a directory, until its standard input ends. It is a module of its
// own so that the broker's module does not depend on it.
package main

import (
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/twmb/franz-go/pkg/kfake"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: kfake DIRECTORY")
		os.Exit(2)
	}
	c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.Ports(0), kfake.DataDir(os.Args[1]), kfake.AllowAutoTopicCreation(), kfake.DefaultNumPartitions(1))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Printf("kfake ready bootstrap.servers=%s\n", strings.Join(c.ListenAddrs(), ","))
	io.Copy(io.Discard, os.Stdin)
	c.Close()
}
