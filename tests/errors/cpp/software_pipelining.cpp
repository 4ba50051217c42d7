// 소프트웨어 파이프라이닝
void software_pipelining() {
    // 파이프라인 시작 (프롤로그)
    load(chunk_0);

    for (int i = 1; i < N; i++) {
        load(chunk_i);         // 다음 청크 로드
        compute(chunk_{i-1});  // 이전 청크 계산 (중복!)
    }
}
