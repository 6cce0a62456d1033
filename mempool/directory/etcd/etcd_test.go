// SPDX-License-Identifier: Apache-2.0

package etcd_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/softroce/softroce-xdp/internal/testkit"
	"github.com/softroce/softroce-xdp/mempool/directory"
	"github.com/softroce/softroce-xdp/mempool/directory/etcd"
	etcdtest "github.com/softroce/softroce-xdp/testenv/lab/require"
)

// open opens a directory whose members have all time to answer: an etcd that stands still is not gone.
func open(t *testing.T, url string) *etcd.Directory {
	t.Helper()
	etcd.SetAnswerTime(t, testkit.Patience)
	d := testkit.Must1(etcd.Open(url))(t)
	return d
}

func entry(name, address string, free int) directory.Server {
	return directory.Server{Name: name, Address: address, SlabBytes: 4096, Slabs: 8, Free: free, Nodes: []directory.Node{{Name: "web1", Slabs: 8 - free}}}
}

// waitNames waits until the directory lists servers.
func waitNames(t *testing.T, d directory.Directory, want ...string) {
	t.Helper()
	testkit.Eventually(t, fmt.Sprintf("servers %v", want), func() error {
		var names []string
		list, err := d.Servers(testkit.Context(t))
		for _, s := range list {
			names = append(names, s.Name)
		}
		if err != nil {
			return err
		}
		if !slices.Equal(names, want) {
			return fmt.Errorf("servers %v", names)
		}
		return nil
	})
}

// An entry is listed as it was written, changes, and ends. Pools with different paths do not see each other.
func TestEntries(t *testing.T) {
	e := etcdtest.Start(t)
	d, ctx := open(t, e.URL), testkit.Context(t)
	two, err := d.Add(ctx, entry("s2", "10.0.0.2:7178", 3))
	testkit.Must(t, err)
	one, err := d.Add(ctx, entry("s1", "10.0.0.1:7178", 8))
	testkit.Must(t, err)
	testkit.Must(t, two.Replace(ctx, entry("s2", "10.0.0.2:7178", 0)))
	testkit.Must(t, two.Renew(ctx))
	list, err := d.Servers(ctx)
	testkit.Must(t, err)
	if want := []directory.Server{entry("s1", "10.0.0.1:7178", 8), entry("s2", "10.0.0.2:7178", 0)}; !reflect.DeepEqual(list, want) {
		t.Errorf("%+v, want %+v", list, want)
	}
	other, err := open(t, e.URL+"/other").Servers(ctx)
	if err != nil || len(other) > 0 {
		t.Errorf("another pool has %v (%v)", other, err)
	}
	testkit.Must(t, one.Close(ctx))
	waitNames(t, d, "s2")
	if err := one.Renew(ctx); !errors.Is(err, directory.ErrExpired) {
		t.Errorf("Renew of an entry that was closed: %v", err)
	}
	if err := one.Replace(ctx, entry("s1", "10.0.0.1:7178", 8)); !errors.Is(err, directory.ErrExpired) {
		t.Errorf("Replace of an entry that was closed: %v", err)
	}
}

// Two servers cannot have one name. A server that was started again at its address takes its entry over, and
// the earlier process cannot change it any more.
func TestName(t *testing.T) {
	d, ctx := open(t, etcdtest.Start(t).URL), testkit.Context(t)
	first, err := d.Add(ctx, entry("s1", "10.0.0.1:7178", 8))
	testkit.Must(t, err)
	if _, err := d.Add(ctx, entry("s1", "10.0.0.2:7178", 8)); !errors.Is(err, directory.ErrTaken) || !strings.Contains(err.Error(), "s1 is at 10.0.0.1:7178") {
		t.Errorf("the name of another server: %v", err)
	}
	_, err = d.Add(ctx, entry("s1", "10.0.0.1:7178", 5))
	testkit.Must(t, err)
	if err := first.Replace(ctx, entry("s1", "10.0.0.1:7178", 1)); !errors.Is(err, directory.ErrExpired) {
		t.Errorf("an entry that was taken over is changed: %v", err)
	}
	testkit.Must(t, first.Close(ctx))
	list, err := d.Servers(ctx)
	if err != nil || len(list) != 1 || list[0].Free != 5 {
		t.Errorf("%+v, %v", list, err)
	}
	for _, bad := range []string{"", "a b", "a/b", strings.Repeat("a", 21)} {
		if _, err := d.Add(ctx, entry(bad, "10.0.0.3:7178", 1)); !errors.Is(err, directory.ErrName) {
			t.Errorf("name %q: %v", bad, err)
		}
	}
}

// Servers that race for a name: one has it.
func TestRace(t *testing.T) {
	d, ctx := open(t, etcdtest.Start(t).URL), testkit.Context(t)
	errs := make(chan error)
	for i := range 8 {
		go func() {
			_, err := d.Add(ctx, entry("s1", net.JoinHostPort("10.0.0.1", string(rune('1'+i))), 8))
			errs <- err
		}()
	}
	won := 0
	for range 8 {
		switch err := <-errs; {
		case err == nil:
			won++
		case !errors.Is(err, directory.ErrTaken):
			t.Error(err)
		}
	}
	if won != 1 {
		t.Errorf("%d servers have the name", won)
	}
}

// An entry whose server is gone ends by itself.
func TestExpires(t *testing.T) {
	d := open(t, etcdtest.Start(t).URL)
	e := testkit.Must1(d.Add(testkit.Context(t), entry("s1", "10.0.0.1:7178", 8)))(t)
	waitNames(t, d, "s1")
	waitNames(t, d)
	if err := e.Renew(testkit.Context(t)); !errors.Is(err, directory.ErrExpired) {
		t.Errorf("Renew of an entry that has expired: %v", err)
	}
}

// reports collects what Announce tells.
type reports struct {
	mu   sync.Mutex
	list []error
}

func (r *reports) add(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.list = append(r.list, err)
}

func (r *reports) wait(t *testing.T, count int) (list []error) {
	t.Helper()
	testkit.Eventually(t, fmt.Sprintf("%d reports", count), func() error {
		r.mu.Lock()
		defer r.mu.Unlock()
		if list = slices.Clone(r.list); len(list) < count {
			return fmt.Errorf("%d: %v", len(list), list)
		}
		return nil
	})
	return list
}

// etcd is killed while a server is announced: this is reported once. When etcd is back, the server is listed again,
// also after its entry has expired, with what has changed.
func TestKilled(t *testing.T) {
	e := etcdtest.Start(t)
	d := open(t, e.URL)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var r reports
	free := make(chan int, 1)
	now := 8
	wait, err := directory.Announce(ctx, d, func() directory.Server {
		select {
		case now = <-free:
		default:
		}
		return entry("s1", "10.0.0.1:7178", now)
	}, r.add)
	testkit.Must(t, err)
	waitNames(t, d, "s1")

	e.Kill()
	if _, err := d.Servers(testkit.Context(t)); !errors.Is(err, directory.ErrUnreachable) || !strings.Contains(err.Error(), "does etcd run there?") {
		t.Errorf("etcd is killed: %v", err)
	}
	if err := r.wait(t, 1)[0]; !errors.Is(err, directory.ErrUnreachable) {
		t.Errorf("told: %v", err)
	}
	free <- 2
	e.Run()
	if err := r.wait(t, 2)[1]; err != nil {
		t.Errorf("told after etcd is back: %v", err)
	}
	waitNames(t, d, "s1")
	testkit.Eventually(t, "one server with two free slabs", func() error {
		if list, err := d.Servers(testkit.Context(t)); err != nil || len(list) != 1 || list[0].Free != 2 {
			return fmt.Errorf("%+v, %v", list, err)
		}
		return nil
	})
	cancel()
	wait()
	waitNames(t, d)
}

// A directory that accepts a connection and does not answer is an error in bounded time; the second member is
// asked then.
func TestSilent(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	testkit.Must(t, err)
	defer l.Close()
	silent := "http://" + l.Addr().String()
	d := open(t, silent)
	etcd.SetAnswerTime(t, 2*time.Second)
	if _, err := d.Servers(testkit.Context(t)); !errors.Is(err, directory.ErrUnreachable) || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a silent member: %v", err)
	}
	d = testkit.Must1(etcd.Open(silent + "," + etcdtest.Start(t).URL))(t)
	testkit.Eventually(t, "an answer of the second member", func() error {
		_, err := d.Add(testkit.Context(t), entry("s1", "10.0.0.1:7178", 8))
		return err
	})
	waitNames(t, d, "s1")
}

// What is no etcd, and values that are no entries, are not taken for servers.
func TestForeign(t *testing.T) {
	for _, x := range []struct {
		status     int
		body, says string
	}{
		{http.StatusNotFound, "404 page not found", "404"},
		{http.StatusOK, "<html>", "no answer of etcd"},
		{http.StatusUnauthorized, `{"error":"etcdserver: user name is empty","code":3}`, "user name is empty"},
	} {
		web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(x.status)
			_, _ = w.Write([]byte(x.body))
		}))
		if _, err := open(t, web.URL).Servers(testkit.Context(t)); err == nil || !strings.Contains(err.Error(), x.says) {
			t.Errorf("%d %s: %v", x.status, x.body, err)
		}
		web.Close()
	}
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		// Keys and values are base64: "/softroce-xdp/pool/servers/a" with "{}" and with "x".
		_, _ = w.Write([]byte(`{"kvs":[{"key":"L3NvZnRyb2NlLXhkcC9wb29sL3NlcnZlcnMvYQ==","value":"e30="},{"key":"L3NvZnRyb2NlLXhkcC9wb29sL3NlcnZlcnMvYQ==","value":"eA=="}]}`))
	}))
	defer web.Close()
	if list, err := open(t, web.URL).Servers(testkit.Context(t)); err != nil || len(list) > 0 {
		t.Errorf("%v, %v", list, err)
	}
}

func TestOpen(t *testing.T) {
	for url, says := range map[string]string{
		"10.0.0.9:2379": "http://HOST:2379", "ftp://h": "http://HOST:2379", "http://": "http://HOST:2379", "http://a:b@h": "a user is not supported",
		"http://h/a,http://g/b": "the same path", "http://h?x=1": "http://HOST:2379", "https://h": "TLS is not supported", "http://:1": "http://HOST:2379", "": "http://HOST:2379", "http://%": "no URL",
	} {
		if _, err := etcd.Open(url); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v", url, err)
		}
	}
}
