// SPDX-License-Identifier: Apache-2.0

package attach

import (
	"fmt"

	"github.com/safchain/ethtool"

	"github.com/softroce/softroce-xdp/loader"
	"github.com/softroce/softroce-xdp/rocev2"
)

// facts is the output of `features` for an interface.
type facts struct {
	Name     string `json:"name"`
	Driver   string `json:"driver"`
	RateBps  uint64 `json:"rate_bps"` // 0 = the driver does not say
	RxQueues int    `json:"rx_queues"`
	TxQueues int    `json:"tx_queues"`
	MTU      int    `json:"mtu"`

	PMTU        int  `json:"pmtu"`          // largest for this MTU; 0 = none fits
	StampRoomV4 bool `json:"stamp_room_v4"` // a full packet and the stamp option fit
	StampRoomV6 bool `json:"stamp_room_v6"`
	StampMTU    int  `json:"stamp_mtu"` // MTU at which both fit

	XDP        *xdpFacts       `json:"xdp"` // null = the kernel does not say (before 6.3)
	XDPProgram uint32          `json:"xdp_program"`
	RootQdisc  string          `json:"root_qdisc"`
	Pacers     []pacerFact     `json:"pacers"`
	Offloads   map[string]bool `json:"offloads"`

	hiddenTags string // message of loader.HiddenTags
}

// Sizes of a full data packet around its payload: IP, UDP, BTH, the largest
// extended header of a packet that carries data (RETH and immediate), ICRC.
const (
	headersV4 = 20 + 8 + 12 + 16 + 4 + 4
	headersV6 = headersV4 + 20
)

// factsOf looks an interface up.
func factsOf(name string) (*facts, error) {
	i, err := loader.FindIface(name)
	if err != nil {
		return nil, err
	}
	attrs := i.Link.Attrs()
	f := &facts{
		Name: name, RateBps: i.RateBps, RxQueues: attrs.NumRxQueues, TxQueues: attrs.NumTxQueues,
		MTU: i.MTU, XDPProgram: i.XDPProg, Offloads: map[string]bool{},
	}
	f.measure()
	f.askDriver()
	f.hiddenTags = loader.HiddenTags(name)
	if f.XDP, err = xdpFeatures(i.Index); err != nil {
		return nil, err
	}
	if f.RootQdisc, err = rootQdisc(i.Link); err != nil {
		return nil, err
	}
	f.Pacers = tryPacers()
	return f, nil
}

// measure computes whether the MTU has room for the stamp option.
func (f *facts) measure() {
	pmtu, ok := rocev2.PMTUForMTU(f.MTU)
	if !ok {
		return
	}
	f.PMTU = pmtu.Bytes()
	f.StampMTU = f.PMTU + headersV6 + rocev2.StampLen
	f.StampRoomV4 = f.PMTU+headersV4+rocev2.StampLen <= f.MTU
	f.StampRoomV6 = f.StampMTU <= f.MTU
}

// offloads that matter here, by the kernel's names.
var offloads = []string{"rx-gro", "rx-gro-hw", "rx-lro", "rx-vlan-hw-parse", "tx-udp-segmentation"}

func (f *facts) askDriver() {
	e, err := ethtool.NewEthtool()
	if err != nil {
		return
	}
	defer e.Close()
	if f.Driver, err = e.DriverName(f.Name); err != nil {
		f.Driver = ""
	}
	have, err := e.Features(f.Name)
	if err != nil {
		return
	}
	for _, name := range offloads {
		if on, ok := have[name]; ok {
			f.Offloads[name] = on
		}
	}
}

// Advice lists obstacles, each with what to do about it.
func (f *facts) Advice() []string {
	var out []string
	say := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	switch {
	case f.PMTU == 0:
		say("no RoCEv2 path MTU fits an MTU of %d: raise it to 1500 or more", f.MTU)
	case !f.StampRoomV4:
		say("full packets of PMTU %d leave no room for the stamp option: `ip link set dev %s mtu %d`, or a smaller PMTU", f.PMTU, f.Name, f.StampMTU)
	case !f.StampRoomV6:
		say("over IPv6, full packets of PMTU %d leave no room for the stamp option: `ip link set dev %s mtu %d`", f.PMTU, f.Name, f.StampMTU)
	}
	if f.XDP != nil && !f.XDP.Native {
		say("the driver has no native XDP: attach uses generic mode, which costs more per packet")
	}
	if f.XDP != nil && f.XDP.Native && !f.XDP.Frags && f.MTU > 3498 {
		say("the driver cannot give XDP frames of several buffers: at this MTU it may refuse native mode")
	}
	if f.Offloads["rx-lro"] {
		say("LRO is on, which native XDP does not go with on most drivers: `ethtool -K %s lro off`", f.Name)
	}
	if f.hiddenTags != "" {
		say("%s", f.hiddenTags)
	}
	if f.RateBps == 0 {
		say("the driver does not say how fast the link is: attach with --rate")
	}
	return out
}
