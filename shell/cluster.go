package shell

import (
	"fmt"
	"strconv"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// clusterTool is kafka-cluster.sh.
func clusterTool() *tool {
	controllers := option{name: "bootstrap-controller", letter: "C", value: "HOST:PORT", refuse: "ask a broker with --bootstrap-server"}
	config := option{name: "config", value: "FILE", refuse: "it has become --command-config"}
	id := option{name: "id", letter: "i", value: "N", help: "the node"}
	own := []option{bootstrapOption, commandConfig, config, controllers}
	const single = "a broker that is gone keeps its registration: clusters of several nodes are not available"
	unregister := func(_ *Shell, c *toolCall) error { return fmt.Errorf("%s is not supported: %s", c.action, single) }
	return &tool{name: "cluster", short: "Tell a cluster's id and its nodes", actions: []action{
		{"cluster-id", "print the cluster's id", own, clusterID},
		{"list-endpoints", "list the brokers and where they are reached", append(own, option{name: "include-fenced-brokers", help: "list fenced brokers too"}), listEndpoints},
		{"api-versions", "list the APIs that the brokers serve", own, func(sh *Shell, c *toolCall) error { return apiVersions(sh, c) }},
		{"unregister", "not supported", append(own, id), unregister},
		{"unregister-controller", "not supported", append(own, id), unregister},
	}}
}

func needBootstrap(c *toolCall) error {
	if !c.has("bootstrap-server") {
		return misuse("argument %s is required", bootstrapOption.title())
	}
	return nil
}

func clusterID(sh *Shell, c *toolCall) error {
	if err := needBootstrap(c); err != nil {
		return err
	}
	k, done, err := sh.connect(c)
	if err != nil {
		return err
	}
	defer done()
	m, err := k.admin.BrokerMetadata(k.ctx)
	if err != nil {
		return says("%s", k.explain(err))
	}
	if m.Cluster == "" {
		fmt.Fprintln(sh.Stdout, "No cluster ID found. The Kafka version is probably too old.")
		return nil
	}
	fmt.Fprintf(sh.Stdout, "Cluster ID: %s\n", m.Cluster)
	return nil
}

func listEndpoints(sh *Shell, c *toolCall) error {
	if err := needBootstrap(c); err != nil {
		return err
	}
	k, done, err := sh.connect(c)
	if err != nil {
		return err
	}
	defer done()
	req := kmsg.NewPtrDescribeClusterRequest()
	req.EndpointType, req.IncludeFencedBrokers = 1, c.has("include-fenced-brokers")
	resp, err := req.RequestWith(k.ctx, k)
	if err != nil {
		return says("%s", k.explain(err))
	}
	if err := kerr.ErrorForCode(resp.ErrorCode); err != nil {
		return brokerSays(err, resp.ErrorMessage)
	}
	host, rack := len("HOST"), 10
	for _, b := range resp.Brokers {
		host = max(host, len(b.Host))
		if b.Rack != nil {
			rack = max(rack, len(*b.Rack))
		}
	}
	line := func(id, at, port, in, state, kind string) {
		fmt.Fprintf(sh.Stdout, "%-10s %-*s %-10s %-*s %-10s %-15s\n", id, host, at, port, rack, in, state, kind)
	}
	line("ID", "HOST", "PORT", "RACK", "STATE", "ENDPOINT_TYPE")
	for _, b := range resp.Brokers {
		in, state := "null", "unfenced"
		if b.Rack != nil {
			in = *b.Rack
		}
		if b.IsFenced {
			state = "fenced"
		}
		line(strconv.Itoa(int(b.NodeID)), b.Host, strconv.Itoa(int(b.Port)), in, state, "broker")
	}
	return nil
}
