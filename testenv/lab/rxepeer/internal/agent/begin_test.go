// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestBegin sends all lines, and finds what follows them untouched.
func TestBegin(t *testing.T) {
	host, guest := net.Pipe()
	if err := host.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	announced := make(chan error, 1)
	go func() {
		err := Announce(guest)
		if err == nil {
			_, err = io.WriteString(guest, "after")
		}
		announced <- err
	}()
	if err := AwaitReady(host); err != nil {
		t.Fatal(err)
	}
	name, data := filepath.Join(t.TempDir(), "a folder", "file"), strings.Repeat("begin\n", 50_000)
	if err := SendFile(host, name, 0o740, []byte(data)); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(name)
	if err != nil || info.Mode() != 0o740 {
		t.Errorf("%v, %v", info, err)
	}
	if got, err := os.ReadFile(name); err != nil || string(got) != data {
		t.Errorf("%d bytes arrived of %d, %v", len(got), len(data), err)
	}
	before := time.Since(started)
	if now, err := ReadClock(host); err != nil || now < before || now > time.Since(started) {
		t.Errorf("the clock: %v, %v; want a time from %v on", now, err, before)
	}
	if err := Begin(host); err != nil {
		t.Fatal(err)
	}
	got := make([]byte, 5)
	if _, err := io.ReadFull(host, got); err != nil || string(got) != "after" {
		t.Errorf("behind the lines: %q, %v", got, err)
	}
	if err := <-announced; err != nil {
		t.Error(err)
	}
}

func TestBeginErrors(t *testing.T) {
	for text, want := range map[string]string{"read": "EOF", "begin\n": `"ready\n"`} {
		if err := AwaitReady(strings.NewReader(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want one with %q", text, err, want)
		}
	}
	file := filepath.Join(t.TempDir(), "file")
	for text, want := range map[string]string{
		"other\n": "other", "file 1 644\n": "file 1 644", fmt.Sprintf(fileFormat+"a", 2, 0o644, file): "unexpected EOF",
	} {
		port := struct {
			io.Reader
			io.Writer
		}{strings.NewReader(text), io.Discard}
		if err := Announce(port); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want one with %q", text, err, want)
		}
	}
}
