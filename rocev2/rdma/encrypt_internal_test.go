// SPDX-License-Identifier: Apache-2.0

package rdma

import (
	"testing"

	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/rocev2/seal"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// narrow is a device whose interface has an MTU.
type narrow struct{ verbs.Device }

func (narrow) Limits() verbs.Limits { return verbs.Limits{MaxRdAtomic: 16} }

// The PMTU of an encrypted connection leaves room for what sealing adds.
func TestEncryptedPMTU(t *testing.T) {
	const most = 4096 + rocev2.PMTUOverhead
	for _, c := range []struct {
		mtu, plain, encrypted int
	}{{most, 4096, 2048}, {most + seal.Overhead - 1, 4096, 2048}, {most + seal.Overhead, 4096, 4096}, {1500, 1024, 1024}} {
		for _, on := range []bool{false, true} {
			o, want := options{}, c.plain
			if on {
				o.encryption, want = &Encryption{}, c.encrypted
			}
			if a := o.attributes(narrow{}, verbs.Port{MTU: c.mtu}); a.PMTU.Bytes() != want {
				t.Errorf("MTU %d, encrypted %v: PMTU %d, want %d", c.mtu, on, a.PMTU.Bytes(), want)
			}
		}
	}
}
