// SPDX-License-Identifier: Apache-2.0

package nic

import (
	"reflect"
	"testing"
)

// The order of QP's fields is by cache lines, which a field more or less would undo
// without anybody noticing (see engine.QP; BenchmarkSpread tells what it is worth).
func TestQueuePairLines(t *testing.T) {
	const line, header = 64, 8 // the heap's, of objects with pointers over 512 bytes
	x := reflect.TypeFor[QP]()
	core, _ := x.FieldByName("core")
	conf, _ := core.Type.FieldByName("q")
	conf.Offset += core.Offset
	if conf.Offset+header != line {
		t.Errorf("the transport's half begins at %d, not with the second line", conf.Offset+header)
	}
	for _, f := range []string{"SendCQ", "MaxSend", "MaxSendSGE", "MaxInline", "Count"} {
		cfg, _ := conf.Type.FieldByName("cfg")
		if at, _ := cfg.Type.FieldByName(f); at.Offset >= line {
			t.Errorf("%s of the Config is not in its first line", f)
		}
	}
	const loaded = 19 * line // by prefetch
	timer, _ := core.Type.FieldByName("timer")
	at, _ := timer.Type.FieldByName("at")
	transport, _ := core.Type.FieldByName("transport")
	for name, end := range map[string]uintptr{
		"timer.at": core.Offset + timer.Offset + at.Offset + at.Type.Size() + header, "transport": core.Offset + transport.Offset + transport.Type.Size() + header,
	} {
		if end > loaded {
			t.Errorf("%s, which messages need, ends at %d, beyond what prefetch loads", name, end)
		}
	}
	rsp, _ := conf.Type.FieldByName("rsp")
	buf, _ := rsp.Type.FieldByName("buf")
	if begin := conf.Offset + rsp.Offset + buf.Offset + header; begin/line < 14 {
		t.Errorf("what only SEND needs begins in line %d, and prefetch leaves line 14 out", begin/line)
	}
	const class = 1280 // of the heap
	if n := x.Size() + header; n > class {
		t.Errorf("a queue pair takes %d bytes, which go into the next larger place than %d", n, class)
	}
}
