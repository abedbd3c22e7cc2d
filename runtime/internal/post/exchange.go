package post

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"sync"
	"time"

	"golang.org/x/net/http/httpguts"

	"github.com/capstan-dev/capstan/runtime/internal/wire"
)

const (
	// maxHead bounds the status line and the headers of an answer in bytes.
	maxHead = 64 << 10
	// MaxQuoted bounds, in bytes, the body of an answer with another status than 200. The beginning of such a body
	// explains the error.
	MaxQuoted = 256
	// maxInterim bounds how many answers with a status below 200 may precede the final one.
	maxInterim = 5
)

// Request is the request to send. Except for the body and the values of Header, it must already be valid in an HTTP
// head.
type Request struct {
	// Prefix and Target together form the path and query.
	Prefix, Target string
	// Header holds further headers. Default: none.
	Header map[string]string
	// Body of the request.
	Body []byte
	// Limit bounds, in bytes, the body of an answer with status 200; a larger one causes [wire.ErrTooLarge].
	Limit int64
}

// Answer is the server's answer.
type Answer struct {
	// Status is the HTTP status code.
	Status int
	// Body is complete for status 200. For other statuses it is the beginning. It must not be used after Release.
	Body []byte

	buffer *[]byte
}

// Release returns the body's buffer for reuse. Calling it is optional and saves an allocation.
func (a Answer) Release() {
	if a.buffer != nil {
		putBuffer(a.buffer)
	}
}

// Do sends a request and reads the answer. It fails at the deadline with [os.ErrDeadlineExceeded] or
// [context.DeadlineExceeded], depending on the step. The server must tolerate getting the request twice: if a kept
// connection turns out to be closed before any of the answer has arrived, the request is sent again on a new one. The
// context applies only while a connection is opened; use [Call.End] to end an exchange.
func (c *Client) Do(ctx context.Context, call *Call, deadline time.Time, request Request) (Answer, error) {
	if err := c.enter(ctx, call, deadline); err != nil {
		return Answer{}, err
	}
	defer c.leave()
	if conn := c.kept(); conn != nil {
		answer, err := c.on(conn, call, deadline, request)
		if err == nil || !conn.silent() || errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, ErrEnded) {
			return answer, err
		}
		// The server has closed the connection, and may have closed others that were idle for as long.
		call.resends()
	}
	conn, err := c.dial(ctx, call, deadline)
	if err != nil {
		return Answer{}, err
	}
	return c.on(conn, call, deadline, request)
}

// on makes an exchange on a connection, and then keeps or closes the connection.
func (c *Client) on(conn *connection, call *Call, deadline time.Time, request Request) (Answer, error) {
	if !call.uses(conn.raw, deadline) {
		conn.close()
		return Answer{}, ErrEnded
	}
	answer, reusable, err := conn.exchange(request)
	if !call.leaves() {
		reusable = false
		if err != nil {
			err = ErrEnded
		}
	}
	if reusable && err == nil {
		c.keep(conn)
	} else {
		conn.close()
	}
	return answer, err
}

// connection is used by one exchange at a time.
type connection struct {
	secure  net.Conn // the TLS connection, for reading and writing
	raw     net.Conn // the connection below it
	host    string
	reader  *bufio.Reader
	lastUse time.Time
	left    int64 // bytes that may still be read before the end of the headers
	got     bool  // a part of an answer has arrived in this exchange
}

func newConnection(secure, raw net.Conn, host string) *connection {
	conn := &connection{secure: secure, raw: raw, host: host}
	conn.reader = bufio.NewReaderSize(conn, 4<<10)
	return conn
}

// Read reads from the connection, for its reader only.
func (conn *connection) Read(p []byte) (int, error) {
	if conn.left <= 0 {
		return 0, fmt.Errorf("the headers of the answer have more than %d bytes", maxHead)
	}
	if int64(len(p)) > conn.left {
		p = p[:conn.left]
	}
	n, err := conn.secure.Read(p)
	conn.left -= int64(n)
	conn.got = conn.got || n > 0
	return n, err
}

// silent reports whether nothing of an answer has arrived.
func (conn *connection) silent() bool { return !conn.got }

// close closes the connection without a TLS alert, which would be useless to the server and could block.
func (conn *connection) close() { _ = conn.raw.Close() }

var buffers = sync.Pool{New: func() any { return new([]byte) }}

func putBuffer(buffer *[]byte) {
	if cap(*buffer) <= 1<<20 { // larger ones are rare and not worth keeping
		buffers.Put(buffer)
	}
}

func (conn *connection) exchange(request Request) (answer Answer, reusable bool, err error) {
	conn.got = false
	if err := conn.write(request); err != nil {
		// The server may have answered and closed before it had read the whole request.
		if answer, _, readErr := conn.read(request.Limit); readErr == nil && answer.Status != http.StatusOK {
			return answer, false, nil
		}
		return Answer{}, false, err
	}
	return conn.read(request.Limit)
}

// write sends everything at once: one TLS record, one packet or a few.
func (conn *connection) write(request Request) error {
	pooled := buffers.Get().(*[]byte)
	defer putBuffer(pooled)
	data := appendHead((*pooled)[:0], conn.host, request)
	data = append(data, request.Body...)
	*pooled = data
	_, err := conn.secure.Write(data)
	return err
}

func appendHead(data []byte, host string, request Request) []byte {
	data = append(data, "POST "...)
	data = append(data, request.Prefix...)
	data = append(data, request.Target...)
	data = append(data, " HTTP/1.1\r\nHost: "...)
	data = append(data, host...)
	data = append(data, "\r\nUser-Agent: capstan-runtime\r\nContent-Type: "+wire.ContentType+"\r\nAccept: "+
		wire.ContentType+"\r\n"...)
	for name, value := range request.Header {
		if !httpguts.ValidHeaderFieldName(name) || !httpguts.ValidHeaderFieldValue(value) {
			continue // a line break in it would start a header or request of its own
		}
		data = append(data, name...)
		data = append(data, ": "...)
		data = append(data, value...)
		data = append(data, "\r\n"...)
	}
	data = append(data, "Content-Length: "...)
	data = strconv.AppendInt(data, int64(len(request.Body)), 10)
	return append(data, "\r\n\r\n"...)
}

func (conn *connection) read(limit int64) (answer Answer, reusable bool, err error) {
	response, err := conn.readHead()
	if err != nil {
		return Answer{}, false, err
	}
	// The body is never closed, because that would read it to its end, however long it is.
	conn.left = 1 << 62 // from here on the body has its own bound
	answer.Status = response.StatusCode
	if answer.Status != http.StatusOK {
		// The body of an error is not read to its end. Closing the connection instead is cheap enough for an error.
		answer.Body, _ = io.ReadAll(io.LimitReader(response.Body, MaxQuoted+1))
		return answer, false, nil
	}
	answer.buffer = buffers.Get().(*[]byte)
	*answer.buffer, err = wire.ReadInto((*answer.buffer)[:0], response.Body, limit, response.ContentLength)
	answer.Body = *answer.buffer
	if err != nil {
		answer.Release()
		return Answer{}, false, err
	}
	// Extra bytes after the answer belong to no request: such a server can't be trusted with the next one.
	return answer, !response.Close && conn.reader.Buffered() == 0, nil
}

// readHead reads to the end of the final answer's headers.
func (conn *connection) readHead() (*http.Response, error) {
	for range maxInterim {
		conn.left = maxHead
		response, err := http.ReadResponse(conn.reader, nil)
		if err != nil {
			return nil, err
		}
		if response.StatusCode >= http.StatusOK || response.StatusCode == http.StatusSwitchingProtocols {
			return response, nil
		}
	}
	return nil, errors.New("the server sends endless interim answers")
}
