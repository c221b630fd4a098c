package main

import (
	"net/netip"
	"reflect"
	"strings"
	"testing"

	"millrace/controller/config"
)

func TestGateways(t *testing.T) {
	v4 := `Iface	Destination	Gateway 	Flags	RefCnt	Use	Metric	Mask		MTU	Window	IRTT
eth0	00000000	010011AC	0003	0	0	0	00000000	0	0	0
eth0	000011AC	00000000	0001	0	0	0	0000FFFF	0	0	0
eth1	00000000	00000000	0001	0	0	0	00000000	0	0	0
eth1	short
`
	if got, want := gateways4(strings.NewReader(v4)), []netip.Addr{netip.MustParseAddr("172.17.0.1")}; !reflect.DeepEqual(got, want) {
		t.Errorf("IPv4: %v, want %v", got, want)
	}
	v6 := `00000000000000000000000000000000 00 00000000000000000000000000000000 00 fd000000000000000000000000000001 00000400 00000001 00000000 00000003 eth0
fd000000000000000000000000000000 40 00000000000000000000000000000000 00 00000000000000000000000000000000 00000100 00000001 00000000 00000001 eth0
00000000000000000000000000000000 00 00000000000000000000000000000000 00 00000000000000000000000000000000 ffffffff 00000001 00000000 00200200 lo
00000000000000000000000000000000 00 00000000000000000000000000000000 00 zz 0 0 0 0 eth0
`
	if got, want := gateways6(strings.NewReader(v6)), []netip.Addr{netip.MustParseAddr("fd00::1")}; !reflect.DeepEqual(got, want) {
		t.Errorf("IPv6: %v, want %v", got, want)
	}
	if got := gateways("/nowhere", "/nowhere"); got != nil {
		t.Errorf("tables that are not there: %v", got)
	}
}

func TestPublishedPorts(t *testing.T) {
	static, _, err := config.ParseStatic(map[string]string{
		"listeners": "PLAINTEXT://:9092,BROKER://:9093,CONTROLLER://:9094", "controller.listener.names": "CONTROLLER", "inter.broker.listener.name": "BROKER",
		"listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,BROKER:PLAINTEXT,CONTROLLER:PLAINTEXT",
	})
	if err != nil {
		t.Fatal(err)
	}
	for value, want := range map[string]map[string]int{
		"": nil, "19092": {"PLAINTEXT": 19092}, "BROKER:1,PLAINTEXT:2": {"BROKER": 1, "PLAINTEXT": 2},
	} {
		if got, err := published(value, static); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%q: %v, %v; want %v", value, got, err, want)
		}
	}
	for _, value := range []string{"0", "x", "65536", "CONTROLLER:5", "OTHER:5", ",", "PLAINTEXT:"} {
		if got, err := published(value, static); err == nil {
			t.Errorf("%q was taken as %v", value, got)
		}
	}
}
