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
}

// Start runs an etcd at free ports of 127.0.0.1. Without the program etcd, the test is skipped.
func Start(t testing.TB) *Etcd {
	t.Helper()
	Command(t, "etcd")
	e := &Etcd{t: t, dir: t.TempDir(), URL: freeURL(t), peerURL: freeURL(t)}
	e.Run()
	t.Cleanup(e.Kill)
	return e
}

// Run starts it, with the data that it had, and waits until it answers.
func (e *Etcd) Run() {
	e.t.Helper()
	log, err := os.Create(filepath.Join(e.dir, "log"))
	if err != nil {
		e.t.Fatal(err)
	}
	defer log.Close()
	e.process = exec.Command("etcd", "--data-dir", filepath.Join(e.dir, "data"), "--listen-client-urls", e.URL, "--advertise-client-urls", e.URL,
		"--listen-peer-urls", e.peerURL, "--initial-advertise-peer-urls", e.peerURL, "--initial-cluster", "default="+e.peerURL)
	e.process.Stdout, e.process.Stderr = log, log
	if err := e.process.Start(); err != nil {
		e.t.Fatal(err)
	}
	for end := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		answer, err := http.Get(e.URL + "/health")
		if err == nil {
			_ = answer.Body.Close()
			if answer.StatusCode == http.StatusOK {
				return
			}
		}
		if time.Now().After(end) {
			text, _ := os.ReadFile(log.Name())
			e.t.Fatalf("etcd does not answer: %v\n%s", err, text)
		}
	}
}

// Kill ends it at once (SIGKILL). Run starts it again.
func (e *Etcd) Kill() {
	if e.process == nil {
		return
	}
	_ = e.process.Process.Kill() // it may have ended
	_ = e.process.Wait()
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
