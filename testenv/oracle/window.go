// SPDX-License-Identifier: Apache-2.0

package oracle

import (
	"context"
	"fmt"

	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// nextKey raises the key bits of a window's rkey.
func nextKey(rkey uint32) uint32 { return rkey&^0xFF | (rkey+1)&0xFF }

// bindWindow has the responder bind its window to the slots of the sink, under a new key.
func (x *exchange) bindWindow(ctx context.Context) error {
	key := nextKey(x.to.windowKey)
	wr := verbs.SendWR{Op: verbs.OpBindWindow, Bind: verbs.Bind{
		Window: x.to.windowKey, NewKey: uint8(key), Region: x.sink().LKey(), Addr: x.sink().VA(), Length: uint64(max(1, x.Count*x.stride())),
		Access: verbs.AccessRemoteWrite | verbs.AccessRemoteRead,
	}}
	if err := x.to.inPlace(ctx, wr); err != nil {
		return fmt.Errorf("%s: bind the window: %w", x.to.side.Name(), err)
	}
	x.to.windowKey = key
	return nil
}

// inPlace posts a request that stays on its side.
func (e *end) inPlace(ctx context.Context, wr verbs.SendWR) error {
	if err := postSend(e.qp, wr); err != nil {
		return err
	}
	got, err := poll(ctx, e, e.sendCQ, wr.Op.String(), 1)
	if err == nil && got[0].Op != wr.Op {
		err = fmt.Errorf("%v completed as %v", wr.Op, got[0].Op)
	}
	return err
}

// unbindWindow takes the window away from its bytes: one in use cannot be bound again.
func (x *exchange) unbindWindow(ctx context.Context) error {
	return x.to.inPlace(ctx, verbs.SendWR{Op: verbs.OpLocalInv, InvKey: x.to.windowKey})
}

// localInvalidate binds a window at the responder, and takes it away there; it must then be
// bindable again.
func (x *exchange) localInvalidate(ctx context.Context) error {
	for range x.Count {
		if err := x.bindWindow(ctx); err != nil {
			return err
		}
		if err := x.unbindWindow(ctx); err != nil {
			return err
		}
	}
	return nil
}
