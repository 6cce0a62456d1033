// SPDX-License-Identifier: Apache-2.0

package compute

import (
	"errors"

	"github.com/softroce/softroce-xdp/rocev2/task"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// end is one end of a connection: a queue pair in INIT, in a protection domain of its own.
type end struct {
	pd verbs.PD
	cq verbs.CQ
	qp verbs.QP
}

func newEnd(dev verbs.Device, depth int) (e *end, err error) {
	e = &end{}
	defer func() {
		if err != nil {
			err = errors.Join(err, e.close())
		}
	}()
	if e.pd, err = dev.AllocPD(); err != nil {
		return e, err
	}
	if e.cq, err = dev.CreateCQ(task.CQDepth(depth)); err != nil {
		return e, err
	}
	if e.qp, err = e.pd.CreateQP(task.QPInit(e.cq, depth)); err != nil {
		return e, err
	}
	return e, verbs.ToInit(e.qp, verbs.Endpoint{}, verbs.DefaultAttr())
}

// close destroys what there is. Nobody uses it any more.
func (e *end) close() error {
	var errs []error
	if e.qp != nil {
		errs = append(errs, e.qp.Destroy())
	}
	if e.cq != nil {
		errs = append(errs, e.cq.Destroy())
	}
	if e.pd != nil {
		errs = append(errs, e.pd.Free())
	}
	return errors.Join(errs...)
}
