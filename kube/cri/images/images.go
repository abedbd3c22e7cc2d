// Package images requests images at the socket of the dock's image store, or of anything else with the same protocol:
// HTTP with JSON. POST /v1/status and /v1/pull with {"image": ..., "auth": {...}} return an image. POST /v1/remove
// removes an image, GET /v1/images lists all images, and GET /v1/fs returns the store's disk usage. An answer other
// than 200 is {"code", "message", "advice"}. In answers, the layers of an image are the names of directories, lowest
// first. These directories are below the directory of layers that [New] gets, and clients can't write to them.
package images

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"time"
)

// Bounds of requests.
const (
	dialLimit = 5 * time.Second
	askLimit  = 30 * time.Second
	maxAnswer = 8 << 20 // bytes
)

// Paths of the store on a local host.
const (
	DefaultSocket = "/opt/capstan/images/images.sock"
	DefaultLayers = "/opt/capstan/layers"
)

// ErrNotFound is returned for an image that does not exist.
var ErrNotFound = errors.New("there is no such image")

// Image is an image whose layers are unpacked.
type Image struct {
	// ID is the digest of its configuration, Digest is the digest of its manifest.
	ID     string `json:"id"`
	Digest string `json:"digest"`
	// Names have the form NAME:TAG, and Digests have the form NAME@DIGEST.
	Names   []string `json:"names"`
	Digests []string `json:"digests"`
	Size    int64    `json:"size"`
	// Pinned says that the image stays even if no container uses it and the disk is full.
	Pinned bool `json:"pinned"`
	// Layers are the paths of the layers' directories, lowest first. The store's answers contain only the directories'
	// names, from which Store makes the paths.
	Layers []string `json:"layers"`
	Config Config   `json:"config"`
}

// Config is the part of an image's configuration (application/vnd.oci.image.config.v1+json) that says how to run it.
type Config struct {
	Architecture string `json:"architecture"`
	Config       struct {
		User       string              `json:"User"`
		Env        []string            `json:"Env"`
		Entrypoint []string            `json:"Entrypoint"`
		Cmd        []string            `json:"Cmd"`
		WorkingDir string              `json:"WorkingDir"`
		StopSignal string              `json:"StopSignal"`
		Volumes    map[string]struct{} `json:"Volumes"`
	} `json:"config"`
}

// Auth is a credential for a registry.
type Auth struct {
	Username      string `json:"username,omitempty"`
	Password      string `json:"password,omitempty"`
	Auth          string `json:"auth,omitempty"`
	IdentityToken string `json:"identityToken,omitempty"`
	RegistryToken string `json:"registryToken,omitempty"`
}

// Usage is the store's disk usage.
type Usage struct {
	Path   string `json:"path"`
	Bytes  uint64 `json:"bytes"`
	Inodes uint64 `json:"inodes"`
}

// Error is a refusal by the store.
type Error struct {
	Code    string `json:"code"`
	Message string `json:"message"`
	Advice  string `json:"advice"`
}

// Error returns the message and the advice.
func (e *Error) Error() string {
	if e.Advice == "" {
		return e.Message
	}
	return e.Message + ": " + e.Advice
}

// Is reports whether target is [ErrNotFound] and the store answered that the image does not exist.
func (e *Error) Is(target error) bool { return target == ErrNotFound && e.Code == "NotFound" }

// Store is a store at a socket. Make one with New.
type Store struct {
	layers string
	client http.Client
}

// New returns the store at a socket, with its layers below a directory.
func New(socket, layers string) *Store {
	dialer := net.Dialer{Timeout: dialLimit}
	return &Store{layers: layers, client: http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return dialer.DialContext(ctx, "unix", socket)
		},
		// This client closes idle connections soon, so an idle CRI server keeps none open.
		IdleConnTimeout: dialLimit, MaxIdleConns: 2,
	}}}
}

// Close closes idle connections.
func (s *Store) Close() { s.client.CloseIdleConnections() }

type question struct {
	Image string `json:"image"`
	Auth  *Auth  `json:"auth,omitempty"`
}

// Status returns an existing image by name, name with digest, or id.
func (s *Store) Status(ctx context.Context, ref string) (*Image, error) {
	return s.image(ctx, "/v1/status", question{Image: ref})
}

// Pull returns an image, and gets it first if it is missing. It may take as long as ctx allows.
func (s *Store) Pull(ctx context.Context, ref string, auth *Auth) (*Image, error) {
	var img Image
	if err := s.ask(ctx, http.MethodPost, "/v1/pull", question{ref, auth}, &img); err != nil {
		return nil, fmt.Errorf("pulling %s: %w", ref, err)
	}
	return &img, s.locate(&img)
}

// Remove removes an image. An image that does not exist is not an error.
func (s *Store) Remove(ctx context.Context, ref string) error {
	ctx, cancel := context.WithTimeout(ctx, askLimit)
	defer cancel()
	err := s.ask(ctx, http.MethodPost, "/v1/remove", question{Image: ref}, nil)
	if errors.Is(err, ErrNotFound) {
		return nil
	}
	return err
}

// List lists the existing images, without configurations.
func (s *Store) List(ctx context.Context) ([]Image, error) {
	ctx, cancel := context.WithTimeout(ctx, askLimit)
	defer cancel()
	var all []Image
	return all, s.ask(ctx, http.MethodGet, "/v1/images", nil, &all)
}

// Usage returns the store's disk usage.
func (s *Store) Usage(ctx context.Context) (Usage, error) {
	ctx, cancel := context.WithTimeout(ctx, askLimit)
	defer cancel()
	var u Usage
	return u, s.ask(ctx, http.MethodGet, "/v1/fs", nil, &u)
}

func (s *Store) image(ctx context.Context, path string, q question) (*Image, error) {
	ctx, cancel := context.WithTimeout(ctx, askLimit)
	defer cancel()
	var img Image
	if err := s.ask(ctx, http.MethodPost, path, q, &img); err != nil {
		return nil, fmt.Errorf("asking for image %s: %w", q.Image, err)
	}
	return &img, s.locate(&img)
}

// locate replaces the names of layers by the paths of their directories. It refuses names that lead elsewhere.
func (s *Store) locate(img *Image) error {
	for i, name := range img.Layers {
		if !filepath.IsLocal(name) {
			return fmt.Errorf("the image store names a layer %q: it must be a directory below %s", name, s.layers)
		}
		img.Layers[i] = filepath.Join(s.layers, name)
	}
	return nil
}

// ask sends a request and decodes the answer.
func (s *Store) ask(ctx context.Context, method, path string, body, answer any) error {
	var in io.Reader
	if body != nil {
		data, err := json.Marshal(body)
		if err != nil {
			return fmt.Errorf("encoding a question: %w", err)
		}
		in = bytes.NewReader(data)
	}
	req, err := http.NewRequestWithContext(ctx, method, "http://images"+path, in)
	if err != nil {
		return fmt.Errorf("asking the image store: %w", err)
	}
	resp, err := s.client.Do(req)
	if err != nil {
		return fmt.Errorf("asking the image store (does the dock run?): %w", err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return fmt.Errorf("reading the image store's answer: %w", err)
	}
	if resp.StatusCode != http.StatusOK {
		var refusal Error
		if err := json.Unmarshal(data, &refusal); err != nil || refusal.Message == "" {
			return fmt.Errorf("the image store answers %s", resp.Status)
		}
		return &refusal
	}
	if answer == nil {
		return nil
	}
	if err := json.Unmarshal(data, answer); err != nil {
		return fmt.Errorf("reading the image store's answer: %w", err)
	}
	return nil
}
