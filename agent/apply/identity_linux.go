package apply

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/capstan-dev/capstan/agent/cloudconfig"
	"github.com/capstan-dev/capstan/agent/undo"
)

// keyIdentity is what tells a device apart from others: names such as /dev/sdb may be given to other disks at each
// boot.
const keyIdentity = "identity"

// Where the kernel lists block devices, and where udev has links that are named after the hardware; a test has its own.
var blockFolder, linkFolder = "/sys/class/block", "/dev/disk/by-id"

// identity is a note about a device of KeyDisk or KeyFilesystem. It is written before the device is changed: once
// without ID, and once more with the one that its content is to have. Where the program that makes the content takes
// none, that one is written after it.
type identity struct {
	// Device is its path in the other note.
	Device string `json:"device"`
	// Links are those of the whole disk; none if udev can't tell the disk from others. Partition is its number, 0 for the
	// disk.
	Links     []string `json:"links,omitempty"`
	Partition int      `json:"partition,omitempty"`
	// ID is an identifier of content that was made, or was about to be.
	ID string `json:"id,omitempty"`
}

// noteDevice notes that a device is about to be changed. id is the identifier that its content is going to have; empty
// if that isn't known yet. It is new, so a note of content that was never made names no other device.
func (h *Host) noteDevice(key, device, id string) error {
	if err := h.noteIdentity(hardware(device)); err != nil {
		return err
	}
	if id != "" {
		if err := h.noteIdentity(identity{Device: device, ID: id}); err != nil {
			return err
		}
	}
	return h.Notes.Note(key, device)
}

// newUUID returns a random identifier, as blkid shows those of Linux file systems and GPT.
func newUUID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

// tableID returns a new identifier for a partition table, as blkid shows it: MBR has the first eight digits only.
func tableID(table string) string {
	id := newUUID()
	if table != "gpt" {
		id = id[:8]
	}
	return id
}

// filesystemID returns a new identifier for a file system, and the options with which mkfs takes it; none if it takes
// none, or the data chooses one.
func filesystemID(f cloudconfig.Filesystem) (id string, options []string) {
	chosen := func(option string) bool { return strings.HasPrefix(option, "-U") || strings.Contains(option, "uuid") }
	if slices.ContainsFunc(f.Options, chosen) {
		return "", nil
	}
	id = newUUID()
	switch f.Type {
	case "ext2", "ext3", "ext4", "btrfs", "swap":
		return id, []string{"-U", id}
	case "xfs":
		return id, []string{"-m", "uuid=" + id}
	}
	return "", nil
}

// noteContent notes what a device has on it after it was changed. With no identifier noted, here or before, cleaning
// leaves a device for a person that has no links.
func (h *Host) noteContent(ctx context.Context, device string) error {
	found, err := probe(ctx, device)
	if err != nil || found.id == "" {
		h.Log.Printf("%s has no identifier: %v", device, err)
		return nil
	}
	return h.noteIdentity(identity{Device: device, ID: found.id})
}

func (h *Host) noteIdentity(i identity) error {
	value, err := json.Marshal(i)
	if err != nil {
		return err
	}
	return h.Notes.Note(keyIdentity, string(value))
}

// hardware returns the identity of a device by its hardware.
func hardware(device string) identity {
	i := identity{Device: device}
	disk, err := filepath.EvalSymlinks(device)
	if err != nil {
		return i
	}
	if entry, err := filepath.EvalSymlinks(filepath.Join(blockFolder, filepath.Base(disk))); err == nil {
		if data, err := os.ReadFile(filepath.Join(entry, "partition")); err == nil {
			i.Partition, _ = strconv.Atoi(strings.TrimSpace(string(data)))
			disk = filepath.Join(filepath.Dir(disk), filepath.Base(filepath.Dir(entry)))
		}
	}
	entries, _ := os.ReadDir(linkFolder)
	for _, entry := range entries {
		link := filepath.Join(linkFolder, entry.Name())
		if strings.HasPrefix(entry.Name(), "lvm-pv-uuid-") {
			continue // named after the content
		}
		if resolved, err := filepath.EvalSymlinks(link); err == nil && resolved == disk {
			i.Links = append(i.Links, link)
		}
	}
	return i
}

// Made returns the paths that the devices have now on which partitions or file systems were made, in the order in which
// they were. unknown are paths of devices that have data, and of which it isn't known whether they are the ones. Notes
// of older agents have names only, which are believed.
func Made(ctx context.Context, notes undo.Notes) (paths, unknown []string, err error) {
	known := map[string][]identity{}
	for _, value := range notes.Notes(keyIdentity) {
		var i identity
		if err := json.Unmarshal([]byte(value), &i); err != nil {
			return nil, nil, fmt.Errorf("reading which devices were changed: %w", err)
		}
		known[i.Device] = append(known[i.Device], i)
	}
	for _, device := range slices.Concat(notes.Notes(KeyDisk), notes.Notes(KeyFilesystem)) {
		found, sure := []string{device}, true
		if len(known[device]) > 0 {
			found, sure = locate(ctx, device, known[device])
		}
		for _, path := range found {
			if there(path) && !slices.Contains(paths, path) {
				paths = append(paths, path)
			}
		}
		if !sure && !slices.Contains(unknown, device) {
			unknown = append(unknown, device)
		}
	}
	return paths, unknown, nil
}

// locate returns the present paths of what was noted as device: more than one if the name changed hands while the step
// was repeated. sure is false if the device that has the name now has data and may be another one.
func locate(ctx context.Context, device string, known []identity) (found []string, sure bool) {
	var ids []string
	lost := false
	for _, i := range known {
		if i.ID != "" {
			ids = append(ids, i.ID)
			continue
		}
		if disk := linked(i.Links); disk == "" {
			lost = true
		} else if i.Partition > 0 {
			found = append(found, partition(disk, i.Partition))
		} else {
			found = append(found, disk)
		}
	}
	if !lost || !there(device) {
		return found, true
	}
	if path, err := filepath.EvalSymlinks(device); err == nil && slices.Contains(found, path) {
		return found, true
	}
	switch now, err := probe(ctx, device); {
	case err == nil && !now.any():
		return found, true
	case err == nil && now.id != "" && slices.Contains(ids, now.id):
		return append(found, device), true
	}
	return found, false
}

// linked returns the disk that the links lead to now; empty if none does.
func linked(links []string) string {
	for _, link := range links {
		if disk, err := filepath.EvalSymlinks(link); err == nil {
			return disk
		}
	}
	return ""
}

func there(path string) bool {
	_, err := os.Stat(path)
	return !errors.Is(err, fs.ErrNotExist)
}
