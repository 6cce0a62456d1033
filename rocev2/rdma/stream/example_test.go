// SPDX-License-Identifier: Apache-2.0

package stream_test

import (
	"context"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"

	_ "github.com/softroce/softroce-xdp/rocev2/nic/loopback" // a device without an interface
	"github.com/softroce/softroce-xdp/rocev2/rdma"
	"github.com/softroce/softroce-xdp/rocev2/rdma/stream"
)

// An ordinary HTTP server and an ordinary HTTP client talk over RDMA: the server serves a
// stream.Listener, the client dials with stream.Dial.
func Example_http() {
	ctx := context.Background()
	dev, err := rdma.Open(ctx, "lo", rdma.WithDriver("loopback")) // rdma.Open(ctx, "eth0")
	check(err)
	defer dev.Close()

	l, err := stream.Listen(ctx, dev, "127.0.0.1:8080")
	check(err)
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "you asked for %s", r.URL.Path)
	})}
	go func() { _ = server.Serve(l) }() // until Close
	defer server.Close()

	client := &http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, address string) (net.Conn, error) {
			return stream.Dial(ctx, dev, address)
		},
	}}
	defer client.CloseIdleConnections()
	for _, path := range []string{"/a", "/b"} {
		answer, err := client.Get("http://127.0.0.1:8080" + path)
		check(err)
		body, err := io.ReadAll(answer.Body)
		check(err)
		check(answer.Body.Close())
		fmt.Printf("%s: %s\n", answer.Status, body)
	}

	// Output:
	// 200 OK: you asked for /a
	// 200 OK: you asked for /b
}

// A client writes a line, and the server answers it.
func Example() {
	ctx := context.Background()
	dev, err := rdma.Open(ctx, "lo", rdma.WithDriver("loopback"))
	check(err)
	defer dev.Close()
	l, err := stream.Listen(ctx, dev, ":7174")
	check(err)
	defer l.Close()
	go func() {
		c, err := l.Accept()
		check(err)
		_, err = io.Copy(c, c) // until the client has closed its direction
		check(err)
		check(c.Close())
	}()

	c, err := stream.Dial(ctx, dev, "127.0.0.1:7174")
	check(err)
	_, err = c.Write([]byte("echo"))
	check(err)
	check(c.CloseWrite())
	answer, err := io.ReadAll(c)
	check(err)
	fmt.Printf("%s\n", answer)
	check(c.Close())

	// Output:
	// echo
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
