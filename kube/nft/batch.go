package nft

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// sent is one message of a transaction, and the line of the command that it executes.
type sent struct {
	kind    uint16
	flags   uint16
	family  byte
	data    attributes
	command string
}

// batch is a transaction while it is being parsed.
type batch struct {
	messages []sent
	sets     map[setName]setType // sets that this transaction created or looked up
	find     func(setName) (setType, error)
	unnamed  uint32 // number of sets without names so far
	line     string // the line being parsed
}

// Kinds of notes that are stored together with objects.
const (
	noteComment      = 0 // of tables, chains, rules, elements
	noteKeyOrder     = 0 // of sets
	noteDataOrder    = 1
	noteSetComment   = 7
	hostOrder        = 1
	networkOrder     = 2
	maxComment       = 128
	tableUserData    = 6 // NFTA_TABLE_USERDATA
	chainUserData    = 12
	setUserData      = 13
	maxElementsBytes = 32 << 10
)

var families = map[string]byte{"ip": unix.NFPROTO_IPV4, "ip6": unix.NFPROTO_IPV6}

// read parses one command.
func (b *batch) read(line string) error {
	w, err := split(line)
	if err != nil {
		return err
	}
	b.line = strings.TrimSpace(line)
	verb, object := w.next(), w.next()
	family, ok := families[w.next()]
	if !ok {
		return errors.New("want a family after the kind of object, ip or ip6")
	}
	table, err := w.name()
	if err != nil {
		return err
	}
	c := command{b, w, verb, object, family, table}
	switch object {
	case "table":
		err = c.doTable()
	case "chain":
		err = c.doChain()
	case "rule":
		err = c.doRule()
	case "set", "map":
		err = c.doSet()
	case "element":
		err = c.doElement()
	default:
		err = c.unknown()
	}
	if err == nil && !w.done() {
		err = w.unexpected("the end of the line")
	}
	return err
}

// command is a command whose object's family and table were parsed.
type command struct {
	*batch
	*words
	verb, object string
	family       byte
	table        string
}

func (c command) unknown() error {
	return fmt.Errorf("%q of a %s is not something that kube-proxy needs", c.verb, c.object)
}

// send adds a message. Creating an object that already exists has no effect.
func (c command) send(kind int, data attributes) {
	flags := uint16(0)
	switch kind {
	case unix.NFT_MSG_NEWTABLE, unix.NFT_MSG_NEWCHAIN, unix.NFT_MSG_NEWSET, unix.NFT_MSG_NEWSETELEM:
		flags = unix.NLM_F_CREATE
	case unix.NFT_MSG_NEWRULE:
		flags = unix.NLM_F_CREATE | unix.NLM_F_APPEND
	}
	c.messages = append(c.messages, sent{uint16(kind), flags, c.family, data, c.line})
}

func (c command) doTable() error {
	var data attributes
	data.text(unix.NFTA_TABLE_NAME, c.table)
	switch c.verb {
	case "add":
		comment, err := c.properties(nil)
		if err != nil {
			return err
		}
		data.number(unix.NFTA_TABLE_FLAGS, 0)
		putComment(&data, tableUserData, noteComment, comment)
		c.send(unix.NFT_MSG_NEWTABLE, data)
	case "delete":
		c.send(unix.NFT_MSG_DELTABLE, data)
	case "flush":
		data = nil
		data.text(unix.NFTA_RULE_TABLE, c.table)
		c.send(unix.NFT_MSG_DELRULE, data)
	default:
		return c.unknown()
	}
	return nil
}

// properties parses an object's properties in braces: those that f knows, and a comment.
func (c command) properties(f func(name string) (known bool, err error)) (comment string, err error) {
	if !c.takes("{") {
		return "", nil
	}
	for !c.takes("}") {
		name := c.next()
		known := false
		if name == "comment" {
			known = true
			if comment, err = c.quoted(); len(comment) >= maxComment {
				err = fmt.Errorf("a comment must have less than %d bytes", maxComment)
			}
		} else if f != nil {
			known, err = f(name)
		}
		if err == nil && !known {
			err = fmt.Errorf("%q is not a property that kube-proxy needs of a %s", name, c.object)
		}
		if err == nil {
			err = c.must(";")
		}
		if err != nil {
			return "", err
		}
	}
	return comment, nil
}

func putComment(data *attributes, kind uint16, note byte, comment string) {
	if comment == "" {
		return
	}
	var notes attributes
	notes.note(note, append([]byte(comment), 0))
	data.put(kind, notes)
}

var hooks = map[string]uint32{
	"prerouting": unix.NF_INET_PRE_ROUTING, "input": unix.NF_INET_LOCAL_IN, "forward": unix.NF_INET_FORWARD,
	"output": unix.NF_INET_LOCAL_OUT, "postrouting": unix.NF_INET_POST_ROUTING,
}

func (c command) doChain() error {
	chain, err := c.name()
	if err != nil {
		return err
	}
	var data attributes
	switch c.verb {
	case "add":
		data.text(unix.NFTA_CHAIN_TABLE, c.table)
		data.text(unix.NFTA_CHAIN_NAME, chain)
		comment, err := c.properties(func(name string) (bool, error) { return name == "type", c.hook(name, &data) })
		if err != nil {
			return err
		}
		putComment(&data, chainUserData, noteComment, comment)
		c.send(unix.NFT_MSG_NEWCHAIN, data)
	case "delete":
		data.text(unix.NFTA_CHAIN_TABLE, c.table)
		data.text(unix.NFTA_CHAIN_NAME, chain)
		c.send(unix.NFT_MSG_DELCHAIN, data)
	case "flush":
		data.text(unix.NFTA_RULE_TABLE, c.table)
		data.text(unix.NFTA_RULE_CHAIN, chain)
		c.send(unix.NFT_MSG_DELRULE, data)
	default:
		return c.unknown()
	}
	return nil
}

// hook parses where the kernel runs a chain: "type nat hook output priority -100".
func (c command) hook(name string, data *attributes) error {
	if name != "type" {
		return nil
	}
	kind := c.next()
	if kind != "nat" && kind != "filter" {
		return fmt.Errorf("chains are of type nat or filter, not %q", kind)
	}
	if err := c.must("hook"); err != nil {
		return err
	}
	text := c.next()
	at, ok := hooks[text]
	if !ok {
		return fmt.Errorf("unknown hook %q", text)
	}
	if err := c.must("priority"); err != nil {
		return err
	}
	var priority int32
	if text = c.next(); !signed(text, &priority) {
		return fmt.Errorf("priority %q is not a number", text)
	}
	var hook attributes
	hook.number(unix.NFTA_HOOK_HOOKNUM, at)
	hook.number(unix.NFTA_HOOK_PRIORITY, uint32(priority))
	data.nest(unix.NFTA_CHAIN_HOOK, hook)
	data.text(unix.NFTA_CHAIN_TYPE, kind)
	return nil
}

func signed(text string, n *int32) bool {
	_, err := fmt.Sscanf(text+"\n", "%d\n", n)
	return err == nil
}

var setFlags = map[string]uint32{"dynamic": unix.NFT_SET_EVAL, "timeout": unix.NFT_SET_TIMEOUT}

func (c command) doSet() error {
	name, err := c.name()
	if err != nil {
		return err
	}
	var data attributes
	switch c.verb {
	case "add":
		return c.addSet(name)
	case "delete":
		data.text(unix.NFTA_SET_TABLE, c.table)
		data.text(unix.NFTA_SET_NAME, name)
		c.send(unix.NFT_MSG_DELSET, data)
	case "flush":
		data.text(unix.NFTA_SET_ELEM_LIST_TABLE, c.table)
		data.text(unix.NFTA_SET_ELEM_LIST_SET, name)
		c.send(unix.NFT_MSG_DELSETELEM, data)
	default:
		return c.unknown()
	}
	return nil
}

func (c command) addSet(name string) error {
	t := setType{isMap: c.object == "map"}
	flags, timeout := uint32(0), time.Duration(0)
	comment, err := c.properties(func(property string) (bool, error) {
		switch property {
		case "type":
			return true, c.setType(&t)
		case "flags":
			return true, c.setFlags(&flags)
		case "timeout":
			text := c.next()
			d, err := time.ParseDuration(text)
			if err != nil || d <= 0 {
				return true, fmt.Errorf("timeout %q is not a number of seconds", text)
			}
			timeout = d
			return true, nil
		}
		return false, nil
	})
	if err != nil {
		return err
	}
	if t.key == nil {
		return fmt.Errorf("the %s has no type", c.object)
	}
	var data, notes attributes
	data.text(unix.NFTA_SET_TABLE, c.table)
	data.text(unix.NFTA_SET_NAME, name)
	if t.isMap {
		flags |= unix.NFT_SET_MAP
	}
	data.number(unix.NFTA_SET_FLAGS, flags)
	data.number(unix.NFTA_SET_KEY_TYPE, t.key.number())
	data.number(unix.NFTA_SET_KEY_LEN, uint32(t.key.size()))
	c.unnamed++
	data.number(unix.NFTA_SET_ID, c.unnamed)
	if t.isMap {
		data.number(unix.NFTA_SET_DATA_TYPE, unix.NFT_DATA_VERDICT)
	}
	if timeout > 0 {
		data.put(unix.NFTA_SET_TIMEOUT, binary.BigEndian.AppendUint64(nil, uint64(timeout.Milliseconds())))
	}
	notes.note(noteKeyOrder, binary.NativeEndian.AppendUint32(nil, networkOrder))
	if comment != "" {
		notes.note(noteSetComment, append([]byte(comment), 0))
	}
	data.put(setUserData, notes)
	c.sets[setName{c.family, c.table, name}] = t
	c.send(unix.NFT_MSG_NEWSET, data)
	return nil
}

// setType parses the type of a set or a map: "ipv4_addr . inet_proto . inet_service : verdict".
func (c command) setType(t *setType) error {
	names, err := c.parts()
	if err != nil {
		return err
	}
	if t.key, err = parseKeyType(names); err != nil || !t.isMap {
		return err
	}
	return c.must(":", "verdict")
}

func (c command) setFlags(flags *uint32) error {
	for {
		name := c.next()
		flag, ok := setFlags[name]
		if !ok {
			return fmt.Errorf("unknown flag %q", name)
		}
		*flags |= flag
		if !c.takes(",") {
			return nil
		}
	}
}

// setNamed returns the type of a set of this table.
func (c command) setNamed(name string) (setType, error) {
	at := setName{c.family, c.table, name}
	if t, ok := c.sets[at]; ok {
		return t, nil
	}
	t, err := c.find(at)
	if err != nil {
		return setType{}, fmt.Errorf("looking for set %s: %w", name, err)
	}
	c.sets[at] = t
	return t, nil
}

func (c command) doElement() error {
	name, err := c.name()
	if err != nil {
		return err
	}
	kind := unix.NFT_MSG_NEWSETELEM
	switch c.verb {
	case "add":
	case "delete":
		kind = unix.NFT_MSG_DELSETELEM
	default:
		return c.unknown()
	}
	t, err := c.setNamed(name)
	if err != nil {
		return err
	}
	if err := c.must("{"); err != nil {
		return err
	}
	parts, err := c.parts()
	if err != nil {
		return err
	}
	e := element{}
	if e.key, err = t.key.encode(parts); err != nil {
		return err
	}
	if c.takes("comment") {
		if e.comment, err = c.quoted(); err != nil || len(e.comment) >= maxComment {
			return errors.Join(err, errors.New("want a short comment in quotes"))
		}
	}
	if t.isMap && c.verb == "add" {
		if err := c.must(":"); err != nil {
			return err
		}
		v, err := c.words.verdict()
		if err != nil {
			return err
		}
		e.data = v.attributes()
	}
	var data, elements attributes
	data.text(unix.NFTA_SET_ELEM_LIST_TABLE, c.table)
	data.text(unix.NFTA_SET_ELEM_LIST_SET, name)
	elements.nest(unix.NFTA_LIST_ELEM, e.attributes())
	data.nest(unix.NFTA_SET_ELEM_LIST_ELEMENTS, elements)
	c.send(kind, data)
	return c.must("}")
}

// element is an element of a set or map.
type element struct {
	key     []byte
	end     bool // this element ends the range that begins at the previous element
	data    attributes
	comment string
}

func (e element) attributes() attributes {
	var all, key attributes
	if e.end {
		all.number(unix.NFTA_SET_ELEM_FLAGS, unix.NFT_SET_ELEM_INTERVAL_END)
	}
	key.put(unix.NFTA_DATA_VALUE, e.key)
	all.nest(unix.NFTA_SET_ELEM_KEY, key)
	if e.data != nil {
		all.nest(unix.NFTA_SET_ELEM_DATA, e.data)
	}
	putComment(&all, unix.NFTA_SET_ELEM_USERDATA, noteComment, e.comment)
	return all
}
