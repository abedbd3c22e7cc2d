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

// keyIdentity is the key of notes that identify a device. A name is not enough, because a name such as /dev/sdb may
// mean another disk after a reboot.
const keyIdentity = "identity"

// blockDir is where the kernel lists block devices; linkDir is where udev puts links named after the hardware.
// Tests replace both.
var blockDir, linkDir = "/sys/class/block", "/dev/disk/by-id"

// identity is a note about a device of KeyDisk or KeyFilesystem. It is written twice before the device changes: first
// without an ID, then with the ID that the new content will have. If the program that creates the content accepts no
// ID, the second note is written after the program has run.
type identity struct {
	// Device is the device's path in the note of KeyDisk or KeyFilesystem.
	Device string `json:"device"`
	// Links are the links to the whole disk; empty if udev can't identify the disk. Partition is the partition's
	// number, or 0 for the whole disk.
	Links     []string `json:"links,omitempty"`
	Partition int      `json:"partition,omitempty"`
	// ID identifies content that was created or was about to be.
	ID string `json:"id,omitempty"`
}

// noteDevice notes that a device is about to change. id is the identifier that its content will have, or empty if that
// isn't known yet. The identifier is new, so even if the content is never created, the note matches no other device.
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

// newUUID returns a random UUID, in the form in which blkid shows the UUIDs of Linux file systems and of GPT.
func newUUID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

// tableID returns a new identifier for a partition table, in the form in which blkid shows it; MBR has only the first
// eight digits.
func tableID(table string) string {
	id := newUUID()
	if table != "gpt" {
		id = id[:8]
	}
	return id
}

// filesystemID returns a new identifier for a file system and the mkfs options that set it. Both are empty if mkfs has
// no such option, or if the data sets an identifier itself.
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

// noteContent notes what is on a device after it changed. If a device has neither links nor a noted identifier,
// cleaning can't tell whether it is the noted device, and leaves the decision to a person.
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
	if entry, err := filepath.EvalSymlinks(filepath.Join(blockDir, filepath.Base(disk))); err == nil {
		if data, err := os.ReadFile(filepath.Join(entry, "partition")); err == nil {
			i.Partition, _ = strconv.Atoi(strings.TrimSpace(string(data)))
			disk = filepath.Join(filepath.Dir(disk), filepath.Base(filepath.Dir(entry)))
		}
	}
	entries, _ := os.ReadDir(linkDir)
	for _, entry := range entries {
		link := filepath.Join(linkDir, entry.Name())
		if strings.HasPrefix(entry.Name(), "lvm-pv-uuid-") {
			continue // such links are named after the content
		}
		if resolved, err := filepath.EvalSymlinks(link); err == nil && resolved == disk {
			i.Links = append(i.Links, link)
		}
	}
	return i
}

// Made returns the current paths of the devices that were partitioned or formatted, in the order of those changes.
// unknown lists devices that hold data but might not be the noted ones. Notes of older agents contain only names, which
// Made trusts.
func Made(ctx context.Context, notes undo.Notes) (paths, unknown []string, err error) {
	known := map[string][]identity{}
	for _, value := range notes.Notes(keyIdentity) {
		var i identity
		if err := json.Unmarshal([]byte(value), &i); err != nil {
			return nil, nil, fmt.Errorf("reading the record of changed devices: %w", err)
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

// locate returns the current paths of the device that was noted under this name. If the name moved to another device
// between two runs of the step, there are several paths. sure is false if the device with this name now has data and
// may not be the device that was noted.
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

// linked returns the disk that the links currently lead to; empty if none leads anywhere.
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
