//go:build linux

package inside

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/capstan-dev/capstan/dock"
	"github.com/capstan-dev/capstan/dock/rootfs"
)

// ImagesProgram is the image store's program, in the same directory as this one.
const ImagesProgram = "capstan-images"

const (
	imagesSocket = "images.sock" // the socket of a host, in the host's directory
	hostsSocket  = "hosts.sock"  // the socket of the store
	maxAsking    = 64            // connections of one host
	imagesDial   = 5 * time.Second
)

// imageStore returns the directory of the image store, or false if there is none.
func (e *engine) imageStore() (string, bool) {
	_, err := os.Stat(filepath.Join(e.BinDir, ImagesProgram))
	return filepath.Join(e.Home, "images"), err == nil
}

// planImages lists what a host sees of the image store.
func (e *engine) planImages(hostDir string) []rootfs.Mount {
	store, is := e.imageStore()
	if !is {
		return nil
	}
	return rootfs.PlanImages(filepath.Join(store, "layers"), filepath.Join(hostDir, "images"))
}

// openImages listens for a host's requests to the image store. It is called once in the life of the host. The dock
// itself tells the store which host is asking: it sends the host's name, and an id that distinguishes the host from
// earlier hosts of that name.
func (e *engine) openImages(h *host) error {
	store, is := e.imageStore()
	if !is || h.images != nil {
		return nil
	}
	dir := filepath.Join(dock.HostDir(e.Home, h.name), "images")
	for _, d := range []struct {
		path string
		mode fs.FileMode
	}{{store, 0o700}, {filepath.Join(store, "layers"), 0o755}, {dir, 0o755}} {
		if err := os.MkdirAll(d.path, d.mode); err != nil {
			return fmt.Errorf("making the image store's directory: %w", err)
		}
	}
	id, err := hostID(filepath.Join(dir, "id"))
	if err != nil {
		return err
	}
	l, err := listen(dir, imagesSocket)
	if err != nil {
		return err
	}
	h.images = l
	go e.carryImages(l, store, h.name+" "+id+"\n")
	return nil
}

// hostID reads the id of a host, or creates it.
func hostID(path string) (string, error) {
	data, err := os.ReadFile(path)
	if err == nil && len(data) > 8 {
		return strings.TrimSpace(string(data)), nil
	}
	id := rand.Text()
	if err := os.WriteFile(path, []byte(id+"\n"), 0o644); err != nil {
		return "", fmt.Errorf("writing the id that identifies the host to the image store: %w", err)
	}
	return id, nil
}

// closeImages stops listening. Existing connections end with the host's processes, or when the store gives up on them.
func (h *host) closeImages() {
	if h.images != nil {
		h.images.Close()
	}
}

// carryImages forwards connections of a host to the store.
func (e *engine) carryImages(l net.Listener, store, preamble string) {
	room := make(chan struct{}, maxAsking)
	for {
		c, err := l.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			e.Log.Printf("listening for requests for images: %v", err)
			time.Sleep(100 * time.Millisecond) // out of file descriptors, for a moment
			continue
		}
		room <- struct{}{}
		go func() {
			defer func() { <-room }()
			defer c.Close()
			carryOne(c, store, preamble)
		}()
	}
}

// carryOne forwards one connection.
func carryOne(c net.Conn, store, preamble string) {
	to, err := dialIn(store, hostsSocket)
	if err == nil {
		defer to.Close()
		_, err = io.WriteString(to, preamble)
	}
	if err != nil {
		refuse(c)
		return
	}
	ended := make(chan struct{}, 2)
	for _, way := range [][2]net.Conn{{to, c}, {c, to}} {
		go func() {
			io.Copy(way[0], way[1])
			ended <- struct{}{}
		}()
	}
	<-ended // if one side closes, the call is over
	c.Close()
	to.Close()
	<-ended
}

// refuse answers in place of the store. It first reads the request: a client that can't send does not read the answer.
func refuse(c net.Conn) {
	c.SetDeadline(time.Now().Add(time.Second))
	if _, err := c.Read(make([]byte, 4<<10)); err != nil {
		return
	}
	io.WriteString(c, unavailable)
	if half, is := c.(*net.UnixConn); is {
		half.CloseWrite()
		io.Copy(io.Discard, io.LimitReader(c, 1<<20))
	}
}

// unavailable is the answer while the store is not available.
var unavailable = func() string {
	const body = `{"code":"Unavailable","message":"the image store is not running","advice":"look at dock/dock.log"}`
	return "HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\nConnection: close\r\n" +
		"Content-Length: " + strconv.Itoa(len(body)) + "\r\n\r\n" + body
}()

// dialIn connects to a socket in a directory whose path may be too long for a socket.
func dialIn(dir, name string) (net.Conn, error) {
	d, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	ctx, cancel := context.WithTimeout(context.Background(), imagesDial)
	defer cancel()
	var dialer net.Dialer
	return dialer.DialContext(ctx, "unix", filepath.Join("/proc/self/fd", strconv.Itoa(int(d.Fd())), name))
}
