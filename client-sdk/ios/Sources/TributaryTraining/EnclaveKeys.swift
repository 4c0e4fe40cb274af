// The device's key in the Secure Enclave.

import Foundation
import Security
import Tributary

/// A key pair on P-256 that never leaves the Secure Enclave, made at its first use.
public final class EnclaveKeys: KeyStore {
    private let tag: Data

    public init(tag: String) {
        self.tag = Data(tag.utf8)
    }

    public func publicKey() throws -> Data {
        guard let key = SecKeyCopyPublicKey(try key()) else { throw failed("it has no public key") }
        var error: Unmanaged<CFError>?
        guard let point = SecKeyCopyExternalRepresentation(key, &error) else { throw failed(error) }
        return point as Data
    }

    public func sign(message: Data) throws -> Data {
        var error: Unmanaged<CFError>?
        let algorithm = SecKeyAlgorithm.ecdsaSignatureMessageX962SHA256
        guard let signature = SecKeyCreateSignature(try key(), algorithm, message as CFData, &error) else {
            throw failed(error)
        }
        return signature as Data
    }

    private func key() throws -> SecKey {
        let query: [String: Any] = [
            kSecClass as String: kSecClassKey,
            kSecAttrApplicationTag as String: tag,
            kSecAttrKeyType as String: kSecAttrKeyTypeECSECPrimeRandom,
            kSecReturnRef as String: true,
        ]
        var found: CFTypeRef?
        if SecItemCopyMatching(query as CFDictionary, &found) == errSecSuccess, let found {
            return found as! SecKey
        }
        var error: Unmanaged<CFError>?
        // After the first unlock, so that sessions in the background can sign.
        guard let access = SecAccessControlCreateWithFlags(
            nil, kSecAttrAccessibleAfterFirstUnlockThisDeviceOnly, .privateKeyUsage, &error
        ) else { throw failed(error) }
        let attributes: [String: Any] = [
            kSecAttrKeyType as String: kSecAttrKeyTypeECSECPrimeRandom,
            kSecAttrKeySizeInBits as String: 256,
            kSecAttrTokenID as String: kSecAttrTokenIDSecureEnclave,
            kSecPrivateKeyAttrs as String: [
                kSecAttrIsPermanent as String: true,
                kSecAttrApplicationTag as String: tag,
                kSecAttrAccessControl as String: access,
            ] as [String: Any],
        ]
        guard let key = SecKeyCreateRandomKey(attributes as CFDictionary, &error) else { throw failed(error) }
        return key
    }

    private func failed(_ error: Unmanaged<CFError>?) -> CallbackError {
        failed(error.map { String(describing: $0.takeRetainedValue()) } ?? "without a reason")
    }

    private func failed(_ detail: String) -> CallbackError {
        .Failed(detail: detail)
    }
}
