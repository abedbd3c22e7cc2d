package cloudconfig

import "io/fs"

// Config is what cloud-config asks for. The zero value asks for nothing.
type Config struct {
	// BootCommands run first, before anything else exists.
	BootCommands []Command
	// Files are written in this order; those with Defer are written after users exist.
	Files []File
	// Disks are partitioned first, then Filesystems are made, then Mounts are mounted.
	Disks       []Disk
	Filesystems []Filesystem
	Mounts      []Mount
	// Users are created after files are written.
	Users []User
	// NTP is nil if the data has no section about time servers.
	NTP *NTP
	// Commands run last.
	Commands []Command
}

// Command is one command of bootcmd or runcmd.
type Command struct {
	// Script is the command as text for a POSIX shell. The parts of a command given as a list are quoted, so that the
	// shell takes each part literally.
	Script string
}

// File is one entry of write_files.
type File struct {
	// Path is absolute.
	Path string
	// Content is decoded, but still compressed if Packed; Open always returns the uncompressed content.
	Content []byte
	// Packed reports whether Content is compressed with gzip.
	Packed bool
	// Owner and Group are names or numbers; empty means root.
	Owner, Group string
	// Mode holds the permission bits and setuid, setgid, sticky; default 0644.
	Mode fs.FileMode
	// Append appends to an existing file instead of replacing it.
	Append bool
	// Defer writes the file after users are created.
	Defer bool
}

// Disk is one entry of disk_setup.
type Disk struct {
	// Device is the path of the disk.
	Device string
	// Table is "mbr" or "gpt".
	Table string
	// Parts are the partitions; if there are none, the disk stays as it is.
	Parts []Part
	// Overwrite says that the disk is partitioned even if it has content.
	Overwrite bool
}

// Part is one partition.
type Part struct {
	// Percent is the share of the disk, 1 to 100.
	Percent int
	// Type is the code of the partition type, such as 83 or a GUID; empty means Linux data.
	Type string
}

// Filesystem is one entry of fs_setup.
type Filesystem struct {
	// Device is the path of the disk or partition.
	Device string
	// Type is the type of file system, such as ext4, xfs or swap.
	Type string
	// Label may be empty.
	Label string
	// Partition is empty or "none" for the device itself, "auto" or "any" for the first suitable partition, or a
	// number.
	Partition string
	// Overwrite makes the file system even if there already is one.
	Overwrite bool
	// Replace is a type of file system that may be overwritten.
	Replace string
	// Options are additional options for mkfs.
	Options []string
}

// Mount is one entry of mounts, in the form of an fstab line.
type Mount struct {
	// Source is a device, "LABEL=x", "UUID=x" or whatever the file system type accepts.
	Source string
	// Point is the absolute path of the mount point, or "none" for swap.
	Point string
	// Type and Options default to "auto" and "defaults,nofail".
	Type, Options string
	// Dump and Pass default to "0" and "2".
	Dump, Pass string
}

// User is one entry of users.
type User struct {
	Name, Gecos, HomeDir, Shell, PrimaryGroup string
	// Groups are the supplementary groups.
	Groups []string
	// Inactive is the number of days after which an expired password disables the account; empty for never.
	Inactive string
	// HashedPassword has the format of /etc/shadow; empty means no password.
	HashedPassword string
	// LockPassword disables logging in with a password.
	LockPassword bool
	// Sudo are sudoers rules, without the user's name.
	Sudo []string
	// SSHKeys are lines of authorized_keys.
	SSHKeys []string
}

// NTP is the section ntp.
type NTP struct {
	Enabled        bool
	Servers, Pools []string
}

// Sentinel is the file that a command in the bootstrap data writes once kubeadm has succeeded. Cluster API's contract
// for bootstrap providers defines this file.
const Sentinel = "/run/cluster-api/bootstrap-success.complete"
