package backup

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"

	"github.com/capstan-dev/capstan/internal/environ"
)

const (
	killDelay = 5 * time.Second
	firstDial = 20 * time.Millisecond
	// connectTimeout limits one attempt to connect to an etcd on this machine.
	connectTimeout = 20 * time.Second
	// revisionJump is added to a restored cluster's revision. It exceeds the number of changes since the snapshot, so
	// that clients that have seen later revisions read everything again instead of missing changes.
	revisionJump = "1000000000"
)

// Tool is a bundle's capstan-kube, which contains etcd and etcdutl.
type Tool struct {
	// Path is the path of the binary.
	Path string
}

// Contents describe the data of an etcd.
type Contents struct {
	// Revision is the latest revision. History before Compacted is gone.
	Revision, Compacted int64
	// Keys is the number of keys.
	Keys int64
	// Hash is the hash of all keys at Revision.
	Hash uint32
}

// Check returns an error if the tool cannot be used.
func (t Tool) Check() error {
	if t.Path == "" {
		return errors.New("no etcd was given to verify snapshots with: start the extension with --bundle, the path of " +
			"capstan-kube")
	}
	if _, err := os.Stat(t.Path); err != nil {
		return fmt.Errorf("looking for an etcd to verify snapshots with: %w", err)
	}
	return nil
}

// Identity identifies an etcd member.
type Identity struct {
	// Name is the name of the member.
	Name string
	// PeerURL is the URL for other members.
	PeerURL string
}

// Restore creates a data directory, which must not exist, for a cluster of one member from a snapshot. It raises the
// revision so that clients of the old cluster notice. The duration depends on the size of the snapshot; limit it by
// ctx.
func (t Tool) Restore(ctx context.Context, snapshot, directory string, identity Identity) error {
	return t.restore(ctx, snapshot, directory, identity, "--bump-revision", revisionJump, "--mark-compacted")
}

func (t Tool) restore(ctx context.Context, snapshot, directory string, identity Identity, more ...string) error {
	if err := t.Check(); err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, t.Path, append([]string{
		"etcdutl", "snapshot", "restore", snapshot, "--data-dir", directory, "--name", identity.Name,
		"--initial-cluster", identity.Name + "=" + identity.PeerURL, "--initial-advertise-peer-urls", identity.PeerURL,
	}, more...)...)
	cmd.Env, cmd.WaitDelay = environ.Child(), killDelay
	if out, err := cmd.CombinedOutput(); ctx.Err() != nil {
		return fmt.Errorf("restoring the snapshot with etcdutl: %w", context.Cause(ctx))
	} else if err != nil {
		return fmt.Errorf("restoring the snapshot with etcdutl: %w: %s", err, lastLines(out))
	}
	return nil
}

// Verify restores a snapshot into a separate etcd, in a temporary directory below scratch, and reads all of it. Limit
// the duration by ctx.
func (t Tool) Verify(ctx context.Context, snapshot, scratch string) (contents Contents, err error) {
	directory, err := os.MkdirTemp(scratch, ".verify-")
	if err != nil {
		return contents, fmt.Errorf("making a directory to verify in: %w", err)
	}
	defer os.RemoveAll(directory)
	data := filepath.Join(directory, "data")
	const peer = "http://localhost:2380" // of a cluster of one: nobody connects
	if err := t.restore(ctx, snapshot, data, Identity{Name: "scratch", PeerURL: peer}); err != nil {
		return contents, err
	}
	err = t.serve(ctx, directory, data, peer, func(client *clientv3.Client) (err error) {
		contents, err = read(ctx, client, client.Endpoints()[0], 0)
		return err
	})
	return contents, err
}

// serve starts an etcd with its sockets in a directory, calls the function use with a client of that etcd, and then
// stops the etcd.
func (t Tool) serve(ctx context.Context, directory, data, peer string, use func(*clientv3.Client) error) error {
	// The kernel kills the child when the thread that started it exits.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var out bytes.Buffer
	cmd := exec.CommandContext(ctx, t.Path, "etcd", "--name", "scratch", "--data-dir", data, "--log-level", "warn",
		"--unsafe-no-fsync",
		"--heartbeat-interval", "20", "--election-timeout", "100", // it has no peers to wait for
		"--listen-client-urls", "unix://client", "--advertise-client-urls", "http://localhost:2379",
		"--listen-peer-urls", "unix://peer", "--initial-advertise-peer-urls", peer, "--initial-cluster", "scratch="+peer)
	cmd.Dir, cmd.Stdout, cmd.Stderr, cmd.WaitDelay = directory, &out, &out, killDelay
	cmd.SysProcAttr, cmd.Env = endWithParent(), environ.Child()
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("starting an etcd to verify the snapshot: %w", err)
	}
	ended := make(chan error, 1)
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() {
		err := cmd.Wait()
		cancel(fmt.Errorf("the etcd to verify the snapshot exited: %w: %s", err, lastLines(out.Bytes())))
		ended <- err
	}()
	defer func() {
		_ = cmd.Process.Kill() // its data is not needed any more
		<-ended
	}()
	client, err := clientv3.New(clientv3.Config{
		Endpoints: []string{"unix://" + filepath.Join(directory, "client")}, Logger: zap.NewNop(), Context: ctx,
		DialOptions: []grpc.DialOption{grpc.WithConnectParams(grpc.ConnectParams{
			// The first attempt comes too early, and the default pause after it is a second.
			Backoff:           backoff.Config{BaseDelay: firstDial, Multiplier: 1.5, Jitter: 0.2, MaxDelay: time.Second},
			MinConnectTimeout: connectTimeout,
		})},
	})
	if err != nil {
		return fmt.Errorf("connecting to the etcd that verifies the snapshot: %w", err)
	}
	defer client.Close()
	for {
		asked, cancelAsked := context.WithTimeout(ctx, time.Second)
		_, err := client.Status(asked, client.Endpoints()[0])
		cancelAsked()
		if err == nil {
			break
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting for the etcd that verifies the snapshot: %w (%w)", context.Cause(ctx), err)
		case <-time.After(50 * time.Millisecond):
		}
	}
	return use(client)
}

// read reads the data of an etcd at a revision, or the latest if it is 0. It reads the whole database; limit the
// duration by ctx.
func read(ctx context.Context, client *clientv3.Client, endpoint string, revision int64) (c Contents, err error) {
	all, err := client.Get(ctx, "\x00", clientv3.WithFromKey(), clientv3.WithCountOnly(), clientv3.WithRev(revision))
	if err != nil {
		return c, fmt.Errorf("counting the keys: %w", err)
	}
	if revision == 0 {
		revision = all.Header.Revision
	}
	hash, err := client.HashKV(ctx, endpoint, revision)
	if err != nil {
		return c, fmt.Errorf("computing the hash of all keys: %w", err)
	}
	return Contents{Revision: revision, Compacted: hash.CompactRevision, Keys: all.Count, Hash: hash.Hash}, nil
}

// lastLines returns the relevant end of a program's output.
func lastLines(out []byte) string {
	const most = 600
	text := strings.TrimSpace(string(out))
	if len(text) > most {
		text = "…" + text[len(text)-most:]
	}
	return strings.ToValidUTF8(text, "")
}
