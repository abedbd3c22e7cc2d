//go:build linux

// Package registry pulls images from registries into the store.
//
// A credential is checked at each pull. Even if the image is already in the store, Pull uses the credential to ask the
// registry for the manifest. A layer that came from another registry is fetched again; otherwise a host could obtain
// any layer by knowing its digest. Only if the registry can't be reached does Pull rely on a record of what the
// registry served to the same credential in the last 24 hours.
package registry

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"golang.org/x/sync/errgroup"

	"github.com/capstan-dev/capstan/image"
	"github.com/capstan-dev/capstan/image/archive"
	"github.com/capstan-dev/capstan/image/layer"
	"github.com/capstan-dev/capstan/image/service"
	"github.com/capstan-dev/capstan/image/store"
)

// parallel is the number of layers of an image that are fetched at the same time.
const parallel = 3

// Puller pulls images. Create one with New.
type Puller struct {
	store    *store.Store
	config   string
	accepted *accepted
	locks    locks
	// First is the pause after the first failure; 0 means 500 ms.
	First time.Duration
	// Keychain holds the credentials of the machine's user.
	Keychain authn.Keychain
}

// New returns a puller for a store. config is the path of registries.yaml, record the path of the record of served
// images.
func New(s *store.Store, config, record string) (*Puller, error) {
	a, err := openAccepted(record)
	if err != nil {
		return nil, err
	}
	return &Puller{store: s, config: config, accepted: a, Keychain: authn.DefaultKeychain}, nil
}

func (p *Puller) first() time.Duration { return cmp.Or(p.First, 500*time.Millisecond) }

// Pull implements [service.Puller].
func (p *Puller) Pull(ctx context.Context, ref string, who service.Asker, say func(string)) (string, error) {
	config, err := LoadConfig(p.config)
	if err != nil {
		return "", err
	}
	origin, _, _ := strings.Cut(ref, "/")
	auth, err := p.credential(origin, who)
	if err != nil {
		return "", err
	}
	endpoints := []string{origin}
	if auth == nil {
		endpoints = append(append([]string{}, config.Mirrors[origin]...), origin)
	}
	var last error
	for _, endpoint := range endpoints {
		one := &pull{puller: p, config: config, ref: ref, endpoint: endpoint, who: who, say: say}
		digest, err := one.from(ctx, auth)
		if err == nil {
			return digest, p.accepted.add(ref, auth, digest)
		}
		if ctx.Err() != nil {
			return "", ctx.Err()
		}
		last = explain(err, ref, endpoint, auth != nil, who)
	}
	if e := new(image.Error); errors.As(last, &e) && e.Code == image.CodeUnavailable {
		if digest, is := p.accepted.find(ref, auth); is && p.store.Has(digest) {
			return digest, nil
		}
	}
	return "", last
}

// pull is one pull: of one image, from one registry.
type pull struct {
	puller   *Puller
	config   Config
	ref      string
	endpoint string
	who      service.Asker
	say      func(string)

	repo   name.Repository
	client *http.Client
	mu     sync.Mutex
	have   int64
	want   int64
}

// from pulls the image.
func (p *pull) from(ctx context.Context, auth *authn.AuthConfig) (string, error) {
	if err := p.open(ctx, auth); err != nil {
		return "", err
	}
	_, identifier, _ := strings.Cut(p.ref, image.Repository(p.ref))
	p.say("asking " + p.endpoint)
	data, hash, err := p.manifest(ctx, identifier[1:])
	if err != nil {
		return "", err
	}
	for range 3 {
		if !isIndex(data) {
			break
		}
		d, err := archive.Choose(data)
		if err != nil {
			return "", err
		}
		if data, hash, err = p.manifest(ctx, d.Digest.String()); err != nil {
			return "", err
		}
	}
	m, err := store.ParseManifest(data)
	if err != nil {
		return "", err
	}
	if err := p.blobs(ctx, m); err != nil {
		return "", err
	}
	if _, err := p.puller.store.PutBlob(ctx, data); err != nil {
		return "", err
	}
	return hash.String(), p.puller.store.Add(ctx, hash, p.say)
}

// open asks the registry how it authenticates, and gets a token if it uses tokens.
func (p *pull) open(ctx context.Context, auth *authn.AuthConfig) error {
	path := image.Repository(p.ref)
	_, path, _ = strings.Cut(path, "/")
	endpoint := p.endpoint
	if endpoint == "docker.io" {
		endpoint = name.DefaultRegistry
	}
	var options []name.Option
	if p.config.plain(p.endpoint) {
		options = append(options, name.Insecure)
	}
	registry, err := name.NewRegistry(endpoint, options...)
	if err != nil {
		return image.Errorf(image.CodeInvalid, "", "%q is not a registry: %v", p.endpoint, err)
	}
	p.repo = registry.Repo(path)
	authenticator := authn.Anonymous
	if auth != nil {
		authenticator = authn.FromConfig(*auth)
	}
	base := p.puller.again(p.puller.base(p.config, p.who.Host))
	scopes := []string{p.repo.Scope(transport.PullScope)}
	through, err := transport.NewWithContext(ctx, registry, authenticator, base, scopes)
	if err != nil {
		return err
	}
	p.client = &http.Client{Transport: through}
	return nil
}

var manifestTypes = strings.Join([]string{
	string(types.OCIManifestSchema1), string(types.OCIImageIndex), string(types.DockerManifestSchema2),
	string(types.DockerManifestList),
}, ", ")

func (p *pull) request(ctx context.Context, method, kind, id string) (*http.Request, error) {
	url := fmt.Sprintf("%s://%s/v2/%s/%s/%s", p.repo.Scheme(), p.repo.RegistryStr(), p.repo.RepositoryStr(), kind, id)
	return http.NewRequestWithContext(ctx, method, url, nil)
}

// manifest fetches a manifest or an index by tag or digest.
func (p *pull) manifest(ctx context.Context, id string) ([]byte, v1.Hash, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	req, err := p.request(ctx, http.MethodGet, "manifests", id)
	if err != nil {
		return nil, v1.Hash{}, err
	}
	req.Header.Set("Accept", manifestTypes)
	resp, err := p.client.Do(req)
	if err != nil {
		return nil, v1.Hash{}, err
	}
	defer resp.Body.Close()
	if err := transport.CheckError(resp, http.StatusOK); err != nil {
		return nil, v1.Hash{}, err
	}
	data, err := io.ReadAll(io.LimitReader(resp.Body, store.MaxManifest+1))
	if err != nil {
		return nil, v1.Hash{}, err
	}
	if len(data) > store.MaxManifest {
		return nil, v1.Hash{}, layer.Refuse("the image's manifest has more than %d bytes", store.MaxManifest)
	}
	hash, _, err := v1.SHA256(strings.NewReader(string(data)))
	if err == nil && image.IsID(id) && hash.String() != id {
		err = layer.Refuse("the registry serves a manifest with the digest %s for %s", hash, id)
	}
	return data, hash, err
}

// isIndex reports whether a manifest lists others.
func isIndex(data []byte) bool {
	m, err := v1.ParseIndexManifest(strings.NewReader(string(data)))
	return err == nil && (m.MediaType.IsIndex() || len(m.Manifests) > 0)
}

// blobs fetches the configuration and the layers.
func (p *pull) blobs(ctx context.Context, m *v1.Manifest) error {
	if err := p.blob(ctx, m.Config); err != nil {
		return err
	}
	// Refuse an image for another platform before fetching its layers.
	config, err := p.puller.store.ReadBlob(m.Config.Digest, store.MaxConfig)
	if err != nil {
		return err
	}
	if _, err := store.ParseConfig(config, m); err != nil {
		return err
	}
	for _, d := range m.Layers {
		p.want += d.Size
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(parallel)
	seen := map[v1.Hash]bool{}
	for _, d := range m.Layers {
		if !seen[d.Digest] {
			seen[d.Digest] = true
			group.Go(func() error { return p.blob(ctx, d) })
		}
	}
	return group.Wait()
}

// got adds n fetched bytes and reports the progress.
func (p *pull) got(n int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.have += n
	p.say(fmt.Sprintf("fetched %d of %d MiB from %s", p.have>>20, p.want>>20, p.endpoint))
}

func isTemporary(code int) bool {
	return code >= 500 || code == http.StatusRequestTimeout || code == http.StatusTooManyRequests
}

// explain turns err into a message with advice. Hosts do not see the registry's answer: another program might be
// listening at that address.
func explain(err error, ref, endpoint string, withAuth bool, who service.Asker) error {
	var typed *image.Error
	if errors.As(err, &typed) || layer.IsRefused(err) {
		return err
	}
	short := image.Short(ref)
	var refused *errLocal
	if errors.As(err, &refused) {
		return image.Errorf(image.CodeDenied, "the machine's user can allow it: hostsMayReach in registries.yaml",
			"image %s: registry %s is at an address of this machine, which hosts may not reach", short, endpoint)
	}
	var answer *transport.Error
	if !errors.As(err, &answer) {
		return image.Errorf(image.CodeUnavailable,
			"load it instead: capstan image load; behind a proxy, set HTTPS_PROXY before capstan up",
			"image %s: registry %s can't be reached: %v", short, endpoint, reason(err, who))
	}
	says := ""
	if !who.Host {
		says = ": " + answer.Error()
	}
	switch {
	case answer.StatusCode == http.StatusUnauthorized || answer.StatusCode == http.StatusForbidden:
		if withAuth {
			return image.Errorf(image.CodeDenied, "look at the pull secret",
				"image %s: registry %s denies it to this credential, or has no such image%s", short, endpoint, says)
		}
		return image.Errorf(image.CodeDenied, "give the pod imagePullSecrets, or correct the image's name",
			"image %s: registry %s requires a credential for it, or has no such image%s", short, endpoint, says)
	case answer.StatusCode == http.StatusNotFound:
		return image.Errorf(image.CodeNotFound, "correct the name, or load the image: capstan image load",
			"image %s: registry %s has no such image%s", short, endpoint, says)
	case answer.StatusCode == http.StatusTooManyRequests:
		return image.Errorf(image.CodeUnavailable, "try again later, or with a credential",
			"image %s: registry %s limits the rate of pulls%s", short, endpoint, says)
	case isTemporary(answer.StatusCode):
		return image.Errorf(image.CodeUnavailable, "try again later",
			"image %s: registry %s is not working: it answers %d%s", short, endpoint, answer.StatusCode, says)
	}
	return image.Errorf(image.CodeFailed, "", "image %s: registry %s answers %d%s",
		short, endpoint, answer.StatusCode, says)
}

// reason returns a network error's text. For hosts it omits what the other side sent.
func reason(err error, who service.Asker) string {
	if !who.Host {
		return err.Error()
	}
	for next := err; next != nil; next = errors.Unwrap(next) {
		err = next
	}
	text := err.Error()
	return text[:min(len(text), 200)]
}
