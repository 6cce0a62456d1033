// SPDX-License-Identifier: Apache-2.0

package nicbench

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/rocev2/nic"
	"github.com/softroce/softroce-xdp/rocev2/seal"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
	"github.com/softroce/softroce-xdp/testenv/bench/internal/compare"
)

// sealTarget is the share of the plain goodput that an encrypted queue pair must have at a PMTU of 4096.
var sealTarget = compare.AtLeast(0.80, "%.2f")

// encrypt gives two queue pairs of devices in this process random keys.
func encrypt(a, b verbs.QP) error {
	k := seal.Keys{Suite: seal.AES128GCM}
	for _, s := range []*seal.Secret{&k.Send, &k.Receive} {
		if _, err := rand.Read(s[:]); err != nil {
			return err
		}
	}
	back := seal.Keys{Suite: k.Suite, Send: k.Receive, Receive: k.Send}
	return errors.Join(a.(seal.Encrypter).Encrypt(k, seal.Limits{}), b.(seal.Encrypter).Encrypt(back, seal.Limits{}))
}

// sealed compares encrypted queue pairs with plain ones, which take turns on the same devices.
func sealed(ctx context.Context, w *world, c config, r *compare.Report) error {
	const size = 64 << 10
	for _, pmtu := range []rocev2.PMTU{rocev2.PMTU4096, rocev2.PMTU1024} {
		t := r.Titled(fmt.Sprintf("Encryption, PMTU %d, messages of %s", pmtu.Bytes(), bytes(size)),
			"OPERATION\tPLAIN GBIT/S\tENCRYPTED GBIT/S\tSHARE\tMIN TO MAX\tTARGET\t\t")
		for _, o := range operations {
			var got compare.Referred[float64]
			err := w.withEngines(nic.Options{}, func(devs [2]*nic.Device) (err error) {
				candidate := func(name string, on bool) compare.Candidate[float64] {
					return compare.Candidate[float64]{Name: name, Measure: func(context.Context) (float64, error) {
						return sealedStream(devs, w, pmtu, o.op, size, c.each, on)
					}}
				}
				got, err = compare.Refer(ctx, c.rounds, candidate(o.name, false), candidate(o.name+", encrypted", true))
				return err
			})
			if err != nil {
				return err
			}
			shares, verdict := got.Shares(0, itself), compare.None
			if pmtu == rocev2.PMTU4096 {
				verdict = t.Median(sealTarget, shares)
			}
			t.Row("%s\t%.2f\t%.2f\t%.3f\t%s\t%s", o.name,
				got.Reference.Series(itself).Median(), got.Runs[0].Series(itself).Median(), shares.Median(), shares.Span("%.2f"), verdict)
		}
		t.End("Plain queue pairs are measured right before and right after an encrypted one (AES-128-GCM) on the same devices; the median of the rounds' shares.")
	}
	return nil
}

// itself is the figure of a measurement that has one.
func itself(v float64) float64 { return v }

// sealedStream returns the goodput of one queue pair in Gbit/s.
func sealedStream(devs [2]*nic.Device, w *world, pmtu rocev2.PMTU, op verbs.Op, size int, length time.Duration, on bool) (float64, error) {
	under := bytesInFlight / size
	p, err := newPair(devs, w.addrs, pairSpec{qps: 1, depth: under, memory: bytesInFlight, pmtu: pmtu, sealed: on})
	if err != nil {
		return 0, err
	}
	f, err := p.run(stream{op: op, size: size, under: under}, length/4, length, nil, nil)
	if err != nil {
		return 0, err
	}
	return f.perSecond() * float64(size) / gbit, p.close()
}
