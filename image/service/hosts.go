//go:build linux

package service

import (
	"bytes"
	"context"
	"errors"
	"net"
	"net/http"
	"strings"
	"sync"

	"github.com/capstan-dev/capstan/image"
	"github.com/capstan-dev/capstan/image/store"
)

// Limits of one host's concurrent requests. Further requests wait on the host, not here.
const (
	maxQuestions = 32
	maxPulls     = 4
	maxHosts     = 2000
)

// maxPreamble bounds the line that names the host of a connection.
const maxPreamble = 160

// ServeHosts serves hosts until ctx ends. The dock connects on their behalf: each connection begins with a line "NAME
// ID".
func (s *Server) ServeHosts(ctx context.Context, l net.Listener) error {
	b := &bouncer{hosts: map[store.Host]*load{}}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/status", b.admit(func(r *http.Request, w http.ResponseWriter, h store.Host) (any, error) {
		q, err := question(w, r)
		if err != nil {
			return nil, err
		}
		ref, err := canonicalOrID(q.Image)
		if err != nil {
			return nil, err
		}
		return s.Store.HostFind(r.Context(), h, ref)
	}))
	mux.HandleFunc("POST /v1/remove", b.admit(func(r *http.Request, w http.ResponseWriter, h store.Host) (any, error) {
		q, err := question(w, r)
		if err != nil {
			return nil, err
		}
		ref, err := canonicalOrID(q.Image)
		if err != nil {
			return nil, err
		}
		return struct{}{}, s.Store.HostRemove(h, ref)
	}))
	mux.HandleFunc("GET /v1/images", b.admit(func(_ *http.Request, _ http.ResponseWriter, h store.Host) (any, error) {
		return s.Store.HostList(h), nil
	}))
	mux.HandleFunc("GET /v1/fs", b.admit(func(*http.Request, http.ResponseWriter, store.Host) (any, error) {
		return s.Store.FS(), nil
	}))
	mux.HandleFunc("POST /v1/pull", b.admit(func(r *http.Request, w http.ResponseWriter, h store.Host) (any, error) {
		q, err := question(w, r)
		if err != nil {
			return nil, err
		}
		leave, err := b.pull(h)
		if err != nil {
			return nil, err
		}
		defer leave()
		ctx, cancel := context.WithTimeout(r.Context(), pullLimit)
		defer cancel()
		return s.pullForHost(ctx, h, q)
	}))
	return serve(ctx, preambles{l}, mux, s.Log, func(server *http.Server) {
		server.ConnContext = func(ctx context.Context, c net.Conn) context.Context {
			return context.WithValue(ctx, connKey{}, c)
		}
	})
}

// pullForHost returns the image that the machine's user loaded under that name, or else pulls it from the registry.
func (s *Server) pullForHost(ctx context.Context, h store.Host, q image.Question) (image.Image, error) {
	name, err := image.Canonical(q.Image)
	if err != nil {
		return image.Image{}, err
	}
	if _, is, err := s.Store.Unhide(h, name); err != nil {
		return image.Image{}, err
	} else if is {
		return s.Store.HostFind(ctx, h, name)
	}
	defer s.worked()
	done := s.Store.Use()
	defer done()
	digest, err := s.Puller.Pull(ctx, name, Asker{Host: true, Auth: q.Auth}, func(string) {})
	if err == nil {
		err = s.Store.Hold(h, name, digest)
	}
	if err != nil {
		return image.Image{}, err
	}
	done()
	return s.Store.HostFind(ctx, h, name)
}

type connKey struct{}

// preambles is a listener whose connections identify their host.
type preambles struct{ net.Listener }

// Accept returns a connection that reads its first line as the host's name.
func (p preambles) Accept() (net.Conn, error) {
	c, err := p.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &hostConn{Conn: c}, nil
}

// hostConn is a connection of a host. It reads the first line together with the request's first bytes, so that a silent
// connection does not block the others.
type hostConn struct {
	net.Conn
	once sync.Once
	host store.Host
	rest []byte
	err  error
}

// Read reads what follows the first line.
func (c *hostConn) Read(p []byte) (int, error) {
	c.once.Do(c.introduce)
	if c.err != nil {
		return 0, c.err
	}
	if len(c.rest) > 0 {
		n := copy(p, c.rest)
		c.rest = c.rest[n:]
		return n, nil
	}
	return c.Conn.Read(p)
}

func (c *hostConn) introduce() {
	var line []byte
	buffer := make([]byte, 4<<10)
	for {
		n, err := c.Conn.Read(buffer)
		line = append(line, buffer[:n]...)
		if at := bytes.IndexByte(line, '\n'); at >= 0 {
			name, id, _ := strings.Cut(string(line[:at]), " ")
			c.host, c.rest = store.Host{Name: name, ID: id}, line[at+1:]
			if !c.host.Valid() {
				c.err = errors.New("the connection does not name its host")
			}
			return
		}
		if err != nil || len(line) > maxPreamble {
			c.err = errors.Join(errors.New("the connection does not name its host"), err)
			return
		}
	}
}

// bouncer limits the concurrent requests of each host.
type bouncer struct {
	mu    sync.Mutex
	hosts map[store.Host]*load
}

type load struct{ questions, pulls int }

// enter counts a request; the caller must call leave when the request is done.
func (b *bouncer) enter(h store.Host, count func(*load) *int, most int, what string) (leave func(), err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	l := b.hosts[h]
	if l == nil {
		if len(b.hosts) >= maxHosts {
			return nil, image.Errorf(image.CodeBusy, "try again", "more than %d hosts are asking at once", maxHosts)
		}
		l = &load{}
		b.hosts[h] = l
	}
	if *count(l) >= most {
		return nil, image.Errorf(image.CodeBusy, "try again", "host %s already has %d %s under way", h.Name, most, what)
	}
	*count(l)++
	return func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		*count(l)--
		if *l == (load{}) {
			delete(b.hosts, h)
		}
	}, nil
}

func (b *bouncer) pull(h store.Host) (func(), error) {
	return b.enter(h, func(l *load) *int { return &l.pulls }, maxPulls, "pulls")
}

// admit serves a host within its limits.
func (b *bouncer) admit(do func(*http.Request, http.ResponseWriter, store.Host) (any, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		c, is := r.Context().Value(connKey{}).(*hostConn)
		if !is || !c.host.Valid() {
			answer(w, nil, image.Errorf(image.CodeInvalid, "", "the connection does not name its host"))
			return
		}
		leave, err := b.enter(c.host, func(l *load) *int { return &l.questions }, maxQuestions, "questions")
		if err != nil {
			answer(w, nil, err)
			return
		}
		defer leave()
		value, err := do(r, w, c.host)
		answer(w, value, err)
	}
}
