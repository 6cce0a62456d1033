// SPDX-License-Identifier: Apache-2.0

package require

// This file runs an etcd for tests (package etcd-server of Debian and Ubuntu).

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// patience bounds waits for what must happen.
const patience = 2 * time.Minute

// Etcd is an etcd with one member. It ends with the test.
type Etcd struct {
	URL string

	t       testing.TB
	dir     string
	peerURL string
	process *exec.Cmd
	ended   chan struct{} // The channel is closed when the process has ended.
}

// Start runs an etcd at free ports of 127.0.0.1. Without the program etcd, the test is skipped.
func Start(t testing.TB) *Etcd {
	t.Helper()
	Command(t, "etcd")
	e := &Etcd{t: t}
	t.Cleanup(e.Kill)
	for end := time.Now().Add(patience); ; {
		e.dir, e.URL, e.peerURL = t.TempDir(), freeURL(t), freeURL(t)
		if err := e.start(end); err == nil {
			return e
		} else if time.Now().After(end) {
			t.Fatal(err)
		}
	}
}

// Run starts it, with the data that it had, and waits until it answers.
func (e *Etcd) Run() {
	e.t.Helper()
	for end := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		if err := e.start(end); err == nil {
			return
		} else if time.Now().After(end) {
			e.t.Fatal(err)
		}
	}
}

// start starts the process and waits until it answers. It returns an error if the process ends, as it does if another
// process has taken one of its ports, or if there is no answer until a time.
func (e *Etcd) start(until time.Time) error {
	log, err := os.Create(filepath.Join(e.dir, "log"))
	if err != nil {
		return err
	}
	defer log.Close()
	e.process = exec.Command("etcd", "--data-dir", filepath.Join(e.dir, "data"), "--listen-client-urls", e.URL, "--advertise-client-urls", e.URL,
		"--listen-peer-urls", e.peerURL, "--initial-advertise-peer-urls", e.peerURL, "--initial-cluster", "default="+e.peerURL)
	e.process.Stdout, e.process.Stderr = log, log
	if err := e.process.Start(); err != nil {
		e.process = nil
		return err
	}
	ended := make(chan struct{})
	e.ended = ended
	go func(p *exec.Cmd) {
		_ = p.Wait()
		close(ended)
	}(e.process)
	for {
		healthy := e.healthy()
		select {
		case <-ended:
			e.process = nil
			text, _ := os.ReadFile(log.Name())
			return fmt.Errorf("etcd has ended:\n%s", text)
		case <-time.After(20 * time.Millisecond):
		}
		if healthy {
			return nil
		}
		if time.Now().After(until) {
			text, _ := os.ReadFile(log.Name())
			return fmt.Errorf("etcd does not answer:\n%s", text)
		}
	}
}

// healthy reports whether it answers.
func (e *Etcd) healthy() bool {
	answer, err := http.Get(e.URL + "/health")
	if err != nil {
		return false
	}
	_ = answer.Body.Close()
	return answer.StatusCode == http.StatusOK
}

// Kill ends it at once (SIGKILL). Run starts it again.
func (e *Etcd) Kill() {
	if e.process == nil {
		return
	}
	_ = e.process.Process.Kill() // it may have ended
	<-e.ended
	e.process = nil
}

// freeURL returns the URL of a port that nobody uses.
func freeURL(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return fmt.Sprintf("http://%s", l.Addr())
}
