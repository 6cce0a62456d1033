// SPDX-License-Identifier: Apache-2.0

package device_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"github.com/softroce/softroce-xdp/rocev2/rdma/client"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// How many queue pairs a process has, how many WRITEs are outstanding on each, and their bytes.
const manyQPs, manyDepth, manyBytes = 250, 64, 64

// many is a process with many queue pairs. The first half of its memory is what it writes, the second is what is
// written to it.
type many struct {
	peer
	qps       []verbs.QP
	own, far  manyAddress
	half, lap int
}

func manyChild(dir string, in *bufio.Scanner) error {
	m, err := openMany(dir)
	if err != nil {
		return err
	}
	fmt.Println("address", m.own.String())
	in.Buffer(nil, 1<<20)
	if !in.Scan() {
		return errors.New("no address")
	}
	if err := json.Unmarshal(in.Bytes(), &m.far); err != nil {
		return err
	}
	for i, q := range m.qps {
		local, remote := verbs.Endpoint{Addr: here, QPN: m.own.QPNs[i]}, verbs.Endpoint{Addr: here, QPN: m.far.QPNs[i]}
		if err := verbs.Connect(q, local, remote, verbs.DefaultAttr()); err != nil {
			return err
		}
	}
	fmt.Println("connected")
	for in.Scan() {
		if in.Text() == "run" {
			err = m.run()
		} else {
			err = m.check()
		}
		if err != nil {
			return err
		}
		fmt.Println("done")
	}
	return nil
}

func openMany(dir string) (*many, error) {
	d, err := client.Open(context.Background(), "lo", client.Config{RunDir: dir})
	if err != nil {
		return nil, err
	}
	m := &many{half: manyQPs * manyDepth * manyBytes, own: manyAddress{Seed: byte(os.Getpid())}}
	m.dev = d
	pd, err := d.AllocPD()
	if err != nil {
		return nil, err
	}
	if m.cq, err = d.CreateCQ(manyQPs * manyDepth); err != nil {
		return nil, err
	}
	buf, err := d.Alloc(2 * m.half)
	if err != nil {
		return nil, err
	}
	if m.mr, err = pd.RegMR(buf, allRights); err != nil {
		return nil, err
	}
	m.src, m.dst = buf[:m.half], buf[m.half:]
	m.own.RKey, m.own.VA = m.mr.RKey(), m.mr.VA()+uint64(m.half)
	for range manyQPs {
		q, err := pd.CreateQP(verbs.QPInit{Type: verbs.RC, SendCQ: m.cq, RecvCQ: m.cq, MaxSend: manyDepth})
		if err != nil {
			return nil, err
		}
		m.qps, m.own.QPNs = append(m.qps, q), append(m.own.QPNs, q.QPN())
	}
	return m, nil
}

// run fills all send queues, one work request of each in turn, and waits for all completions.
func (m *many) run() error {
	fill(m.src, m.own.Seed+byte(m.lap))
	for k := range manyDepth {
		for i, q := range m.qps {
			at := uint64(i*manyDepth+k) * manyBytes
			wr := verbs.SendWR{
				ID: at, Op: verbs.OpWrite, Flags: verbs.Signaled, RemoteAddr: m.far.VA + at, RKey: m.far.RKey,
				SGL: []verbs.SGE{{Addr: m.mr.VA() + at, Len: manyBytes, LKey: m.mr.LKey()}},
			}
			if err := q.PostSend(&wr); err != nil {
				return err
			}
		}
	}
	return m.collect(manyQPs * manyDepth)
}

// check compares what has arrived.
func (m *many) check() error {
	want := make([]byte, m.half)
	fill(want, m.far.Seed+byte(m.lap))
	m.lap++
	if !bytes.Equal(m.dst, want) {
		return errors.New("the data is not that of the peer")
	}
	clear(m.dst)
	return nil
}
