// SPDX-License-Identifier: Apache-2.0

package perf

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"
)

func goodPlan() Plan {
	return Plan{Op: "write", Service: "rc", Size: 4096, QPs: 1, Depth: 64, Duration: time.Second, Timeout: 14, Retries: 7}
}

// What a plan may not ask for, and the flag that the error names.
func TestValidate(t *testing.T) {
	if p := goodPlan(); p.Validate() != nil {
		t.Fatal(p.Validate())
	}
	for want, change := range map[string]func(*Plan){
		"no operation":                  func(p *Plan) { p.Op = "knit" },
		"--messages":                    func(p *Plan) { p.Count = 1 },
		"messages outstanding":          func(p *Plan) { p.QPs, p.Depth = MaxQPs, MaxDepth },
		"5GiB of memory":                func(p *Plan) { p.QPs, p.Size = 5, MaxSize },
		"fetch-add has none":            func(p *Plan) { p.Op, p.Size, p.Check = "fetch-add", 8, true },
		"--duration -1s":                func(p *Plan) { p.Duration = -time.Second },
		"choose up to 24h":              func(p *Plan) { p.Warmup = 1 << 62 },
		"--timeout 32":                  func(p *Plan) { p.Timeout = 32 },
		"--check needs --service rc":    func(p *Plan) { p.Service, p.Check = "uc", true },
		"no atomics":                    func(p *Plan) { p.Op, p.Size, p.Service = "fetch-add", 8, "ooo" },
		"--payload 1390":                func(p *Plan) { p.Service, p.Payload = "ooo", 1390 },
		"--payload needs --service ooo": func(p *Plan) { p.Payload = 1392 },
		"no service":                    func(p *Plan) { p.Service = "" },
		"choose 256, 512, 1024, 2048 o": func(p *Plan) { p.MTU = 1000 },
	} {
		p := goodPlan()
		change(&p)
		if err := p.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", want, err)
		}
	}
}

// A server refuses a run that is too large for it before it makes anything.
func TestServerMemory(t *testing.T) {
	here, there := net.Pipe()
	defer here.Close()
	client := newControlConn(t.Context(), here)
	p := goodPlan()
	p.Size = 1 << 20
	go func() {
		_ = client.send(message{Plan: &p, Addr: netip.MustParseAddr("10.0.0.1"), Pairs: make([]pair, 1)})
	}()
	s := &server{memory: 1<<20 - 1, log: slog.New(slog.NewTextHandler(io.Discard, nil))}
	_, err := s.agree(newControlConn(t.Context(), there))
	if err == nil || !strings.Contains(err.Error(), "start it with a larger --memory") {
		t.Errorf("%v", err)
	}
}

// Who waits for a silent peer can be interrupted.
func TestInterruptedControlConn(t *testing.T) {
	here, there := net.Pipe()
	defer there.Close()
	ctx, cancel := context.WithCancel(t.Context())
	c := newControlConn(ctx, here)
	release := c.guard()
	time.AfterFunc(20*time.Millisecond, cancel)
	begin := time.Now()
	if _, err := c.receive(time.Hour); !errors.Is(err, context.Canceled) || time.Since(begin) > 5*time.Minute {
		t.Errorf("%v after %v", err, time.Since(begin))
	}
	if release() {
		t.Error("the guard says that it did not act")
	}
}
