// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/textproto"
	"strconv"
	"strings"
	"time"
)

// httpOK is the status of an answer that is no error.
const httpOK = 200

// post sends JSON by HTTP/1.0, whose answer ends with the connection, and returns status and body. Package
// net/http would make the agent, which is the same program, larger by a megabyte.
func post(ctx context.Context, host, path string, body []byte) (status int, text string, answer []byte, err error) {
	c, err := new(net.Dialer).DialContext(ctx, "tcp", host)
	if err != nil {
		return 0, "", nil, fmt.Errorf("%w: does etcd run there?", err)
	}
	defer c.Close()
	stop := context.AfterFunc(ctx, func() { _ = c.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	defer func() {
		if err != nil && ctx.Err() != nil {
			err = fmt.Errorf("%w: does etcd run there?", ctx.Err())
		}
	}()
	if _, err = fmt.Fprintf(c, "POST %s HTTP/1.0\r\nHost: %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", path, host, len(body), body); err != nil {
		return 0, "", nil, err
	}
	r := textproto.NewReader(bufio.NewReader(io.LimitReader(c, maxAnswer)))
	line, err := r.ReadLine()
	if err != nil {
		return 0, "", nil, err
	}
	version, text, _ := strings.Cut(line, " ")
	number, _, _ := strings.Cut(text, " ")
	if status, err = strconv.Atoi(number); err != nil || !strings.HasPrefix(version, "HTTP/1.") {
		return 0, "", nil, fmt.Errorf("no answer of etcd: %.40q", line)
	}
	header, err := r.ReadMIMEHeader()
	if err != nil {
		return 0, "", nil, err
	}
	if answer, err = io.ReadAll(r.R); err != nil {
		return 0, "", nil, err
	}
	if length := header.Get("Content-Length"); length != "" && length != strconv.Itoa(len(answer)) {
		return 0, "", nil, fmt.Errorf("%d bytes of an answer of %s: %w", len(answer), length, io.ErrUnexpectedEOF)
	}
	return status, text, answer, nil
}
