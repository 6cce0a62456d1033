// SPDX-License-Identifier: Apache-2.0

package pacer

import "github.com/softroce/softroce-xdp/bpf"

// Kind is a pacer, by its name on the command line and in the state file.
type Kind string

// The kinds.
const (
	Auto   Kind = "auto"   // the first of EDT and HTB that works; only for Setup
	EDT    Kind = "edt"    // fq keeps a packet until its departure time
	HTB    Kind = "htb"    // an HTB class for each destination
	Police Kind = "police" // packets above the rate are dropped
	None   Kind = "none"   // nothing is paced
)

// Kinds lists the pacers in the order in which Auto tries them.
var Kinds = []Kind{EDT, HTB, Police, None}

var numbers = map[Kind]uint32{EDT: bpf.PacerEDT, HTB: bpf.PacerHTB, Police: bpf.PacerPolice, None: bpf.PacerNone}

// Number returns the pacer's number in the data plane: Config.Pacer.
func (k Kind) Number() uint32 { return numbers[k] }
