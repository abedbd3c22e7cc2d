// Package hooks is the side of a management plane in runtime hooks: the client by which the plane calls extensions
// ([NewClient]), what exists and who handles it ([List], [Installed]), and the emergency exit of an administrator
// ([Unblocking]).
//
// What authors of extensions need works without a plane and is in the module runtime.
package hooks
