// Package hooks is a management plane's side of runtime hooks: the client with which the plane calls extensions
// ([NewClient]), the list of hooks and their handlers ([List], [Installed]), and an administrator's emergency override
// ([Unblocking]).
//
// Everything that authors of extensions need works without a plane and is in the module runtime.
package hooks
