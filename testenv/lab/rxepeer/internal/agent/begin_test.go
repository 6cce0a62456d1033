// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"io"
	"net"
	"strings"
	"testing"
	"time"
)

// TestBegin sends both lines, and finds what follows them untouched.
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
	for text, want := range map[string]string{"read": "unexpected EOF", "begin\n": `"ready\n"`} {
		if err := AwaitReady(strings.NewReader(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want one with %q", text, err, want)
		}
	}
}
