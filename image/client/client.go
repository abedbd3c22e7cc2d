//go:build linux

// Package client talks to the image store on behalf of the machine's user (see package image).
package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"os/exec"
	"syscall"
	"time"

	"github.com/capstan-dev/capstan/image"
	"github.com/capstan-dev/capstan/image/socket"
	"github.com/capstan-dev/capstan/internal/backoff"
	"github.com/capstan-dev/capstan/internal/environ"
)

// Client talks to the image store of one home directory.
type Client struct {
	http *http.Client
	stop func()
}

// startLimit bounds how long a store started for one command may take to answer.
const startLimit = 30 * time.Second

// Connect returns a client of the store in dir. If no dock runs the store, Connect starts binary, which runs until
// Close. The caller must close the client.
func Connect(ctx context.Context, dir, binary string) (*Client, error) {
	c := &Client{stop: func() {}, http: &http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return socket.Dial(ctx, dir, socket.Owner)
		},
		DisableKeepAlives: true,
	}}}
	err := c.reach(ctx)
	if !missing(err) {
		return c, err
	}
	if err := c.start(ctx, dir, binary); err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

// reach checks that the store answers.
func (c *Client) reach(ctx context.Context) error {
	_, err := c.List(ctx)
	return err
}

// missing reports whether err means that nobody is listening.
func missing(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ECONNREFUSED)
}

// start runs the store until Close, with the same program that the dock runs.
func (c *Client) start(ctx context.Context, dir, binary string) error {
	cmd := exec.Command(binary, "serve", "--dir", dir, "--once")
	cmd.Env = environ.Network()
	var said tail
	cmd.Stderr = &said
	stdin, err := cmd.StdinPipe() // closing it stops the process, even if this one is killed
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return fmt.Errorf("starting the image store: %w", err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	c.stop = func() {
		stdin.Close()
		<-ended
	}
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	for {
		err := c.reach(ctx)
		if !missing(err) {
			return err
		}
		select {
		case err := <-ended:
			ended <- err
			if err := c.reach(ctx); !missing(err) { // a dock was started meanwhile
				return err
			}
			return fmt.Errorf("the image store does not start: %s", said.text())
		default:
		}
		if backoff.Sleep(ctx, 10*time.Millisecond) != nil {
			return fmt.Errorf("waiting for the image store: %w", ctx.Err())
		}
	}
}

// tail keeps the beginning of a process's output.
type tail struct{ said []byte }

// Write keeps the first 4 KiB and discards the rest.
func (t *tail) Write(p []byte) (int, error) {
	t.said = append(t.said, p[:min(len(p), 4096-min(len(t.said), 4096))]...)
	return len(p), nil
}

func (t *tail) text() string {
	if len(t.said) == 0 {
		return "it says nothing"
	}
	return string(t.said)
}

// Close releases what the client holds, and stops a store that it started.
func (c *Client) Close() {
	c.http.CloseIdleConnections()
	c.stop()
}

// List lists all images.
func (c *Client) List(ctx context.Context) ([]image.Image, error) {
	var all []image.Image
	return all, c.ask(ctx, "GET", "images", nil, &all)
}

// Remove removes a name. The store deletes images that nobody holds any more.
func (c *Client) Remove(ctx context.Context, ref string) error {
	return c.ask(ctx, "DELETE", "images?"+url.Values{"ref": {ref}}.Encode(), nil, &struct{}{})
}

// Load adds the images of an archive. It calls the function say, which may be nil, with its progress.
func (c *Client) Load(ctx context.Context, from io.Reader, name string, say func(string)) ([]image.Image, error) {
	return c.long(ctx, "load?"+url.Values{"name": {name}}.Encode(), from, say)
}

// Pull adds an image from a registry, with the credentials of the user's ~/.docker/config.json.
func (c *Client) Pull(ctx context.Context, name string, say func(string)) ([]image.Image, error) {
	r, w := io.Pipe()
	go func() { w.CloseWithError(json.NewEncoder(w).Encode(image.Question{Image: name})) }()
	return c.long(ctx, "pull", r, say)
}

// Save writes images as an archive.
func (c *Client) Save(ctx context.Context, to io.Writer, refs []string) error {
	resp, err := c.do(ctx, "GET", "save?"+url.Values{"ref": refs}.Encode(), nil)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if _, err := io.Copy(to, resp.Body); err != nil {
		return fmt.Errorf("saving images: %w", err)
	}
	return nil
}

// long makes a call that streams its progress.
func (c *Client) long(ctx context.Context, path string, body io.Reader, say func(string)) ([]image.Image, error) {
	resp, err := c.do(ctx, "POST", path, body)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	for dec := json.NewDecoder(resp.Body); ; {
		var e image.Event
		if err := dec.Decode(&e); err != nil {
			return nil, fmt.Errorf("the image store stopped in the middle: %w", err)
		}
		switch {
		case e.Error != nil:
			return nil, e.Error
		case e.Text != "":
			if say != nil {
				say(e.Text)
			}
		default:
			return e.Images, nil
		}
	}
}

// ask makes a short call.
func (c *Client) ask(ctx context.Context, method, path string, body io.Reader, into any) error {
	resp, err := c.do(ctx, method, path, body)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if err := json.NewDecoder(resp.Body).Decode(into); err != nil {
		return fmt.Errorf("reading the answer of the image store: %w", err)
	}
	return nil
}

// do makes a call. If the store refuses, the error is an [image.Error].
func (c *Client) do(ctx context.Context, method, path string, body io.Reader) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, "http://images/v1/"+path, body)
	if err != nil {
		return nil, fmt.Errorf("asking the image store: %w", err)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, fmt.Errorf("asking the image store: %w", err)
	}
	if resp.StatusCode < 300 {
		return resp, nil
	}
	defer resp.Body.Close()
	e := &image.Error{}
	data, err := io.ReadAll(io.LimitReader(resp.Body, 64<<10))
	if err != nil || json.Unmarshal(data, e) != nil || e.Message == "" {
		return nil, fmt.Errorf("the image store answers %s: %.200s", resp.Status, data)
	}
	return nil, e
}
